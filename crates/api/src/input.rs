//! Reading requests: bodies, queries, paths, headers. What does not fit is answered with a problem
//! that names the place.

pub(crate) mod body;
pub(crate) mod content;
pub(crate) mod duration;
pub(crate) mod query;
pub(crate) mod steering;
pub(crate) mod target;

/// The known name that somebody probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |candidate: &&str| {
        let distance = strsim::damerau_levenshtein(name, candidate);
        (distance * 3 <= candidate.len().max(3)).then_some(distance)
    };
    known
        .into_iter()
        // Longer names are not typing mistakes, and comparing them costs time.
        .filter(|_| name.len() <= 64)
        .filter_map(|candidate| Some((near(&candidate)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
