//! 20,000 random maps: a simplified map equals the original wherever both are evaluated, and simplifying it
//! again changes nothing.

use indexing::{Constraint, Expr, IndexingMap, Interval, Variable};
use melior::Context;

/// A small deterministic generator (xorshift64*), so that failures can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: i64) -> i64 {
        (self.next() >> 11) as i64 % n
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }
}

fn random_expr<'c>(context: &'c Context, random: &mut Random, dims: usize, ranges: usize, depth: usize) -> Expr<'c> {
    const FACTORS: [i64; 12] = [-8, -3, -1, 1, 2, 3, 4, 6, 8, 12, 32, 96];
    const DIVISORS: [i64; 9] = [2, 3, 4, 6, 8, 12, 16, 64, 96];
    if depth == 0 || random.below(5) == 0 {
        return match random.below(4) {
            0 => Expr::constant(context, random.between(-20, 20)),
            1 if ranges > 0 => Expr::symbol(context, random.below(ranges as i64) as usize),
            _ => Expr::dim(context, random.below(dims as i64) as usize),
        };
    }
    let operand = |random: &mut Random| random_expr(context, random, dims, ranges, depth - 1);
    match random.below(12) {
        0..=3 => operand(random) + operand(random),
        4 => operand(random) - operand(random),
        5 | 6 => operand(random) * FACTORS[random.below(12) as usize],
        7 | 8 => operand(random).floordiv(DIVISORS[random.below(9) as usize]),
        9 | 10 => operand(random).modulo(DIVISORS[random.below(9) as usize]),
        _ => match random.below(2) {
            0 => operand(random).ceildiv(DIVISORS[random.below(9) as usize]),
            // A delinearised value put together again, the pattern reshapes make.
            _ => {
                let x = operand(random);
                let c = DIVISORS[random.below(9) as usize];
                let k = random.between(1, 3);
                x.floordiv(c) * (c * k) + x.modulo(c) * k
            }
        },
    }
}

fn random_map<'c>(context: &'c Context, random: &mut Random) -> IndexingMap<'c> {
    let dims = random.between(1, 4) as usize;
    let ranges = random.below(3) as usize;
    let variables = |random: &mut Random, n: usize| {
        (0..n)
            .map(|_| {
                let lower = if random.below(3) == 0 { random.between(-20, 20) } else { 0 };
                Variable::new(Interval::new(lower, lower + [0, 1, 3, 7, 11, 63, 100][random.below(7) as usize]))
            })
            .collect::<Vec<Variable<'c>>>()
    };
    let results = (0..random.between(1, 3)).map(|_| random_expr(context, random, dims, ranges, 5)).collect();
    let constraints = (0..random.below(3))
        .map(|_| {
            let lower = random.between(-10, 30);
            let interval = match random.below(3) {
                0 => Interval::point(random.between(0, 3)),
                _ => Interval::new(lower, lower + random.between(0, 60)),
            };
            Constraint::new(random_expr(context, random, dims, ranges, 3), interval)
        })
        .collect();
    let (dims, ranges) = (variables(random, dims), variables(random, ranges));
    IndexingMap::new(context, dims, ranges, Vec::new(), results, constraints)
}

/// Points to compare at: corners and random ones of the original box.
fn sample(random: &mut Random, map: &IndexingMap<'_>) -> (Vec<i64>, Vec<i64>) {
    let mut pick = |v: &Variable<'_>| match random.below(4) {
        0 => v.bounds.lower,
        1 => v.bounds.upper,
        _ => random.between(v.bounds.lower, v.bounds.upper),
    };
    let dims = map.dims().iter().map(&mut pick).collect();
    let ranges = map.ranges().iter().map(&mut pick).collect();
    (dims, ranges)
}

#[test]
fn simplification_keeps_the_function_and_is_idempotent() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut in_domain, mut shorter, mut empty) = (0u64, 0u64, 0u64);
    for number in 0..20_000 {
        let context = &Context::new_with_threading(false);
        let map = random_map(context, &mut random);
        let mut simplified = map.clone();
        simplified.simplify();
        let mut again = simplified.clone();
        again.simplify();
        assert_eq!(again.to_string(), simplified.to_string(), "map {number} changes again: {map}");
        assert_eq!(again, simplified);
        let size = |m: &IndexingMap<'_>| m.results().iter().map(|expr| expr.size()).sum::<usize>();
        shorter += u64::from(size(&simplified) < size(&map));
        empty += u64::from(simplified.is_known_empty());
        for _ in 0..60 {
            if map.is_known_empty() {
                assert!(simplified.is_known_empty());
                break;
            }
            let (dims, ranges) = sample(&mut random, &map);
            let inside = map.contains(&dims, &ranges, &[]);
            assert_eq!(
                inside,
                simplified.contains(&dims, &ranges, &[]),
                "domain at {dims:?} {ranges:?}\n{map}\n{simplified}"
            );
            if inside {
                in_domain += 1;
                let value = map.evaluate(&dims, &ranges, &[]);
                assert_eq!(
                    value,
                    simplified.evaluate(&dims, &ranges, &[]),
                    "value at {dims:?} {ranges:?}\n{map}\n{simplified}"
                );
            }
        }
        let text = simplified.to_string();
        if !simplified.is_known_empty() {
            let parsed = IndexingMap::parse(context, &text).expect("printed maps parse");
            assert_eq!(parsed.to_string(), text);
        }
    }
    assert!(in_domain > 200_000, "only {in_domain} points were inside a domain");
    assert!(shorter > 10_000, "only {shorter} maps became shorter");
    assert!(empty < 10_000, "{empty} maps were empty");
}
