//! Text that nobody has checked.

use indexing::{Expr, IndexingMap};
use melior::Context;

#[test]
fn untrusted_text_is_an_error() {
    let context = &Context::new_with_threading(false);
    let map = |text| IndexingMap::parse(context, text).expect("parses");
    for text in [
        "",
        "(",
        "(d0",
        "(d0) ->",
        "(d0) -> (d1)",
        "(d0) -> (d0), domain: d0 in [0]",
        "(d0, d0) -> (d0)",
        "(d0) -> (d0), domain: d0 in [0, 99999999999999999999]",
        "(d0) -> (d0) d0",
        "(d0) -> (d0 @ 2)",
        "KNOWN",
        "(d0) -> (99999999999999999999)",
        "(d0) -> (é)",
        "(d0) -> (min(d0, 3))",
    ] {
        assert!(IndexingMap::parse(context, text).is_err(), "{text}");
    }
    let deep = format!("(d0) -> ({}d0{})", "(".repeat(100_000), ")".repeat(100_000));
    assert!(IndexingMap::parse(context, &deep).is_err());
    let summands: String = (2..100_000).map(|i| format!(" mod {i} + d0")).collect();
    let long = format!("(d0) -> (d0{summands})");
    assert!(IndexingMap::parse(context, &long).is_err());
    // Numbers at the ends of i64 neither crash nor wrap.
    let ends = "(d0) -> (d0 * 9223372036854775807 + d0 * 9223372036854775807, (d0 - 9223372036854775807) floordiv -1), \
        domain: d0 in [-9223372036854775808, 9223372036854775807], d0 * -9223372036854775808 in [0, 9223372036854775807]";
    let mut ends = map(ends);
    ends.simplify();
    assert_eq!(ends.evaluate(&[i64::MAX], &[], &[]), None);
    let zero = map("(d0) -> (d0 mod 0, d0 floordiv 0, d0 ceildiv (d0 - d0)), domain: d0 in [0, 3], d0 mod 0 in [0, 0]");
    let mut simplified = zero.clone();
    simplified.simplify();
    assert_eq!(zero.evaluate(&[1], &[], &[]), None);
    assert_eq!(Expr::constant(context, i64::MIN).floordiv(-1).evaluate(&[], &[]), None);
}

#[test]
fn minima_and_maxima_are_what_the_domain_decides() {
    let context = &Context::new_with_threading(false);
    let read = |text| IndexingMap::parse(context, text).map(|map| map.to_string());
    let text = "(d0) -> (min(d0, d0 + 1), max(10, d0, -min(d0, 20))), domain: d0 in [0, 5], max(d0, 7) + d0 in [8, 9]";
    let decided = "(d0) -> (d0, 10), domain: d0 in [0, 5], d0 + 7 in [8, 9]";
    assert_eq!(read(text).as_deref(), Ok(decided));
    let message = read("(d0) -> (d0 + min(d0, 3)), domain: d0 in [0, 9]").expect_err("is not affine").to_string();
    assert!(message.ends_with("that its domain does not decide at byte 14"), "{message}");
}

#[test]
fn summands_have_one_order() {
    let context = &Context::new_with_threading(false);
    let printed = |text| IndexingMap::parse(context, text).map(|map| map.to_string());
    let simplified = |text| {
        let mut map = IndexingMap::parse(context, text).expect("parses");
        map.simplify();
        map.to_string()
    };
    // Written as read: a symbolic summand stays before the dimensions that follow it.
    for text in [
        "(d0, d1)[s0] -> (s0 * 4 + d0 + d1 - 42)",
        "(d0, d1)[s0] -> (d0 + d1 + s0 * 4)",
        "(d0)[s0, s1] -> (d0 * 4 + s0 + s1 - 42)",
        "(d0)[s0] -> (d0 + s0)",
        "(d0)[s0, s1] -> (d0 + (s0 - s1))",
    ] {
        assert_eq!(printed(text).as_deref(), Ok(text));
    }
    assert_eq!(printed("(d0)[s0] -> (s0 + d0)").as_deref(), Ok("(d0)[s0] -> (d0 + s0)"));
    // Simplified: products before variables, dimensions before symbols.
    assert_eq!(
        simplified("()[s0, s1, s2] -> (s0 * 8 + s1 + s2 * 4), domain: s0 in [0, 9], s1 in [0, 3], s2 in [0, 1]"),
        "()[s0, s1, s2] -> (s0 * 8 + s2 * 4 + s1), domain: s0 in [0, 9], s1 in [0, 3], s2 in [0, 1]"
    );
}
