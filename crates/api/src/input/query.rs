//! Query strings, read strictly: unknown, repeated and malformed parameters are errors.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::Uri;
use axum::http::request::Parts;

use super::{duration, nearest};
use crate::app::Api;
use crate::error::{ErrorCode, Problem};
use crate::options::Limits;

/// What a route takes in its query string.
pub(crate) trait Parameters: Sized {
    /// Takes each parameter by its name. Whatever is not taken is then refused.
    fn read(query: &mut Query, limits: &Limits) -> Result<Self, Problem>;
}

/// The route takes none.
impl Parameters for () {
    fn read(_: &mut Query, _: &Limits) -> Result<Self, Problem> {
        Ok(())
    }
}

/// The query string of a request. There is no other way to read one, so no route lets an unknown
/// parameter pass.
pub(crate) struct Asked<P = ()>(pub(crate) P);

impl<P: Parameters> FromRequestParts<Api> for Asked<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let mut query = Query::of(&parts.uri);
        let parameters = P::read(&mut query, &api.options().limits)?;
        query.end()?;
        Ok(Self(parameters))
    }
}

/// How long to wait for the end of a turn, in milliseconds.
pub(crate) struct Wait(pub(crate) Option<u64>);

impl Parameters for Wait {
    fn read(query: &mut Query, limits: &Limits) -> Result<Self, Problem> {
        query.duration_ms("wait", limits.wait_ms_max).map(Self)
    }
}

/// The parameters of a request; each is taken by name.
pub(crate) struct Query {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl Query {
    fn of(uri: &Uri) -> Self {
        let text = uri.query().unwrap_or_default();
        let pairs = form_urlencoded::parse(text.as_bytes())
            .into_owned()
            .collect();
        Self {
            pairs,
            known: Vec::new(),
        }
    }

    /// A parameter as text.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Problem> {
        self.known.push(name);
        let mut found = None;
        let mut repeated = false;
        self.pairs.retain_mut(|(key, value)| {
            if key != name {
                return true;
            }
            repeated |= found.replace(std::mem::take(value)).is_some();
            false
        });
        if repeated {
            return Err(invalid(name, "it is given twice"));
        }
        Ok(found)
    }

    /// A parameter of any kind that is read from text.
    pub(crate) fn parsed<T>(&mut self, name: &'static str) -> Result<Option<T>, Problem>
    where
        T: FromStr,
        T::Err: Display,
    {
        let read = |text: String| {
            text.parse()
                .map_err(|error| invalid(name, &format!("{error}")))
        };
        self.text(name)?.map(read).transpose()
    }

    /// A whole number.
    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Problem> {
        let read = |text: String| whole_number(&text).ok_or_else(|| invalid(name, NUMBER));
        self.text(name)?.map(read).transpose()
    }

    /// How many to give: `default` without the parameter, 1 to `max` with it.
    pub(crate) fn limit(&mut self, default: usize, max: usize) -> Result<usize, Problem> {
        let Some(limit) = self.number("limit")? else {
            return Ok(default);
        };
        usize::try_from(limit)
            .ok()
            .filter(|limit| (1..=max).contains(limit))
            .ok_or_else(|| invalid("limit", &format!("it must be from 1 to {max}")))
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<Option<bool>, Problem> {
        let read = |text: String| match text.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(invalid(name, "it must be `true` or `false`")),
        };
        self.text(name)?.map(read).transpose()
    }

    /// A duration of at most `max_ms`, in milliseconds.
    pub(crate) fn duration_ms(
        &mut self,
        name: &'static str,
        max_ms: u64,
    ) -> Result<Option<u64>, Problem> {
        let read = |text: String| {
            duration::parse_ms(&text)
                .filter(|ms| *ms <= max_ms)
                .ok_or_else(|| {
                    let limit_s = max_ms / 1_000;
                    let rule = format!(
                        "it must be a duration like `30s`, `500ms` or `2m`, at most {limit_s}s"
                    );
                    invalid(name, &rule)
                })
        };
        self.text(name)?.map(read).transpose()
    }

    /// Refuses parameters that nobody asked for.
    fn end(self) -> Result<(), Problem> {
        let Some((name, _)) = self.pairs.first() else {
            return Ok(());
        };
        let shown: String = name.chars().take(64).collect();
        let mut detail = format!("the query parameter `{shown}` is not known here");
        if let Some(near) = nearest(name, self.known.iter().copied()) {
            detail.push_str(&format!("; did you mean `{near}`?"));
        } else if self.known.is_empty() {
            detail.push_str("; the route takes none");
        } else {
            detail.push_str(&format!("; it takes `{}`", self.known.join("`, `")));
        }
        Err(Problem::new(ErrorCode::QueryInvalid, detail).with_field(shown))
    }
}

const NUMBER: &str = "it must be a whole number";

/// A decimal number without sign.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    // `parse` alone also takes a plus sign.
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

/// A parameter that does not fit.
pub(crate) fn invalid(name: &'static str, rule: &str) -> Problem {
    Problem::new(
        ErrorCode::QueryInvalid,
        format!("the query parameter `{name}` is not valid: {rule}"),
    )
    .with_field(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    fn detail<T: std::fmt::Debug>(result: Result<T, Problem>) -> String {
        result.unwrap_err().body().detail
    }

    #[test]
    fn parameters_are_taken_once_and_none_is_left() {
        let mut read = query("after=7&limit=20&follow=false&tag=a%20b");
        assert_eq!(read.number("after"), Ok(Some(7)));
        assert_eq!(read.limit(50, 100), Ok(20));
        assert_eq!(read.flag("follow"), Ok(Some(false)));
        assert_eq!(read.text("tag"), Ok(Some("a b".into())));
        assert_eq!(read.text("status"), Ok(None));
        assert_eq!(read.end(), Ok(()));
    }

    #[test]
    fn mistakes_name_the_parameter() {
        insta::assert_snapshot!(detail(query("after=+7").number("after")), @"the query parameter `after` is not valid: it must be a whole number");
        insta::assert_snapshot!(detail(query("after=1&after=1").number("after")), @"the query parameter `after` is not valid: it is given twice");
        insta::assert_snapshot!(detail(query("limit=0").limit(1, 100)), @"the query parameter `limit` is not valid: it must be from 1 to 100");
        insta::assert_snapshot!(detail(query("follow=1").flag("follow")), @"the query parameter `follow` is not valid: it must be `true` or `false`");
        insta::assert_snapshot!(detail(query("wait=1d").duration_ms("wait", 60_000)), @"the query parameter `wait` is not valid: it must be a duration like `30s`, `500ms` or `2m`, at most 60s");
        let mut read = query("aftr=1");
        read.number("after").unwrap();
        insta::assert_snapshot!(detail(read.end()), @"the query parameter `aftr` is not known here; did you mean `after`?");
        insta::assert_snapshot!(detail(query("x").end()), @"the query parameter `x` is not known here; the route takes none");
    }
}
