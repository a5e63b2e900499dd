//! What a path names, and for whom.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use steadfast_core::id::{CommandId, SessionId, SessionKey};

use super::query::{Asked, Parameters};
use crate::app::Api;
use crate::auth::Caller;
use crate::error::{ErrorCode, Problem};

/// Name of the header that carries a command's id, for commands without a body field for it.
pub(crate) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Who asks, the parameters of the path, and those of the query string.
pub(crate) struct Target<P = ()> {
    pub(crate) caller: Caller,
    pub(crate) query: P,
    params: RawPathParams,
}

impl<P: Parameters> FromRequestParts<Api> for Target<P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let params = RawPathParams::from_request_parts(parts, api)
            .await
            .map_err(|_| Problem::new(ErrorCode::PathInvalid, "the path is not UTF-8"))?;
        // Every route stands behind the layer that identifies the caller.
        let caller =
            caller.ok_or_else(|| Problem::new(ErrorCode::Internal, "the request has no caller"))?;
        let Asked(query) = Asked::from_request_parts(parts, api).await?;
        Ok(Self {
            caller,
            query,
            params,
        })
    }
}

impl<P> Target<P> {
    /// A parameter of the path.
    pub(crate) fn param<T>(&self, name: &'static str) -> Result<T, Problem>
    where
        T: FromStr,
        T::Err: Display,
    {
        let found = self.params.iter().find(|(key, _)| *key == name);
        let (_, text) =
            found.ok_or_else(|| Problem::new(ErrorCode::Internal, "the route has no such part"))?;
        text.parse().map_err(|error| {
            let detail = format!("the `{name}` in the path is {error}");
            Problem::new(ErrorCode::PathInvalid, detail).with_field(name)
        })
    }

    /// The session that the path names, of the caller's tenant.
    pub(crate) fn session(&self) -> Result<SessionKey, Problem> {
        Ok(self.key(self.param("session")?))
    }

    /// A session of the caller's tenant.
    pub(crate) fn key(&self, session: SessionId) -> SessionKey {
        SessionKey {
            tenant: self.caller.tenant.clone(),
            session,
        }
    }
}

/// The id of a command without one in its body: the client's `Idempotency-Key`, else a new one.
pub(crate) struct CommandKey(pub(crate) CommandId);

impl FromRequestParts<Api> for CommandKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let invalid = |detail: String| {
            Problem::new(ErrorCode::HeaderInvalid, detail).with_field(IDEMPOTENCY_KEY)
        };
        match (given.next(), given.next()) {
            (None, _) => new_command_id().map(Self),
            (Some(value), None) => {
                let text = value.to_str().unwrap_or_default();
                let id = CommandId::new(text)
                    .map_err(|error| invalid(format!("the header `Idempotency-Key` is {error}")))?;
                Ok(Self(id))
            }
            (Some(_), Some(_)) => Err(invalid(
                "the header `Idempotency-Key` is given twice".into(),
            )),
        }
    }
}

/// A new id, ordered by time.
pub(crate) fn new_command_id() -> Result<CommandId, Problem> {
    CommandId::new(uuid::Uuid::now_v7().to_string()).map_err(|error| {
        tracing::error!(%error, "made an invalid id");
        Problem::new(ErrorCode::Internal, "no id could be made")
    })
}
