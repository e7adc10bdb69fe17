//! What a misspelt name was meant to be.

/// The candidate nearest to `name`, if it is near enough to be meant: at most a third of its letters differ.
pub(crate) fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let name = name.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&name, &candidate.to_ascii_lowercase()), candidate))
        .filter(|&(distance, candidate)| 3 * distance <= candidate.len().max(name.len()))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn only_near_names_are_suggested() {
        let names = ["feature_group_count", "batch_group_count", "window"];
        assert_eq!(nearest("feature_group_cuont", names), Some("feature_group_count"));
        assert_eq!(nearest("Window", names), Some("window"));
        assert_eq!(nearest("dimensions", names), None);
        assert_eq!(nearest("", names), None);
    }
}
