//! The known word that somebody probably meant.

/// The candidate nearest to `word`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const SIMILAR_MIN: f64 = 0.75;
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR_MIN)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_near_word_is_suggested() {
        let known = ["listen", "name", "max_steps"];
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("max_step", known), Some("max_steps"));
        assert_eq!(nearest("colour", known), None);
    }
}
