//! The model of `src/` as property tests, with the stable toolchain: what libFuzzer finds by coverage, these find by
//! chance, in every `cargo test`.

use keywake_fuzz::{
    Case, CgroupCase, Numbering, PatternCase, SetCase, check_cgroup, check_pattern, check_position, run, run_sets,
};
use proptest::{
    collection::vec,
    prelude::{ProptestConfig, Strategy, any},
    proptest,
};

/// As many as fit into a few seconds; `PROPTEST_CASES` sets another number.
fn cases(n: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { default.cases } else { n };
    ProptestConfig { cases, failure_persistence: None, ..default }
}

fn case(numbering: Numbering) -> impl Strategy<Value = Case> {
    vec(any::<u8>(), 16..800).prop_map(move |bytes| Case::from_bytes(numbering, &bytes))
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn hub_that_numbers_its_events_does_what_the_model_says(case in case(Numbering::Own)) {
        run(&case);
    }

    #[test]
    fn hub_with_the_numbers_of_a_source_does_what_the_model_says(case in case(Numbering::Source)) {
        run(&case);
    }

    #[test]
    fn pattern_matches_what_the_model_says(bytes in vec(any::<u8>(), 0..300)) {
        check_pattern(&PatternCase::from_bytes(&bytes));
    }

    #[test]
    fn any_text_is_a_pattern_or_a_typed_error(text in any::<String>(), separator in any::<char>(), key in any::<String>()) {
        check_pattern(&PatternCase { text, separator, key });
    }

    #[test]
    fn sets_do_what_the_model_says(case in vec(any::<u8>(), 16..900).prop_map(|bytes| SetCase::from_bytes(&bytes))) {
        run_sets(&case);
    }

    #[test]
    fn files_of_groups_are_read_as_the_model_does(bytes in vec(any::<u8>(), 0..400)) {
        check_cgroup(&CgroupCase::from_bytes(&bytes));
    }

    #[test]
    fn any_bytes_are_a_file_of_a_group_or_a_typed_error(bytes in vec(any::<u8>(), 0..100)) {
        check_cgroup(&CgroupCase { text: bytes, written: None });
    }

    #[test]
    fn any_text_is_a_position_or_a_typed_error(text in any::<String>()) {
        check_position(&text);
    }

    #[test]
    fn text_that_looks_like_a_position_is_one_or_a_typed_error(text in "v[0-9]{1,2}(\\.[0-9a-fA-F]{0,17}){0,3}") {
        check_position(&text);
    }
}
