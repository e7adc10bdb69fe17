//! The tools as a user meets them: transcripts of commands with their output and exit status.
//!
//! `TRYCMD=overwrite` rewrites the transcripts.

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("../test-files/command-line/*.trycmd");
}
