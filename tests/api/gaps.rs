//! Arrays with elements between others, joined, stacked, repeated or cut, and what is made of them.

use crate::against_evaluation::{check, check_with, combination};

#[test]
fn elements_between_others_of_rows_of_any_length() {
    for count in [1, 2, 7, 8, 9, 31, 40, 100] {
        for (low, high, interior) in
            [(0, 0, 1), (0, 1, 1), (1, 0, 1), (3, 2, 1), (0, 0, 2), (2, 5, 3), (-1, 4, 1), (1, -1, 7)]
        {
            let size = (count - 1) * (interior + 1) + 1 + low + high;
            if size < 0 {
                continue;
            }
            for element_type in ["f32", "f64", "s8", "bf16"] {
                check(&format!(
                    " x = {element_type}[{count}] parameter(0)\n z = {element_type}[] constant(3)\n \
                     ROOT r = {element_type}[{size}] pad(x, z), padding={low}_{high}_{interior}"
                ));
            }
        }
    }
    check(
        " x = f32[9,14,6] parameter(0)\n z = f32[] constant(2)\n \
         ROOT r = f32[17,30,13] pad(x, z), padding=0_0_1x1_2_1x1_1_1",
    );
}

#[test]
fn two_arrays_alternating() {
    for (even, odd) in [(1, 1), (5, 4), (8, 8), (40, 39), (333, 333), (5000, 4999)] {
        let (size, high) = (even + odd, if even == odd { 1 } else { 0 });
        check(&format!(
            " a = f32[{even}] parameter(0)\n b = f32[{odd}] parameter(1)\n z = f32[] constant(0)\n \
             c = f32[{size}] pad(a, z), padding=0_{high}_1\n \
             d = f32[{size}] pad(b, z), padding=1_{}_1\n ROOT r = f32[{size}] add(c, d)",
            1 - high
        ));
    }
}

/// What `jax.lax.associative_scan` makes: sums of neighbours, their sums to here, and those between.
#[test]
fn sums_to_each_place_by_halves() {
    for size in [2, 3, 10, 64, 101, 1000] {
        let mut entry = format!(" v0 = s32[{size}] parameter(0)\n z = s32[] constant(0)\n");
        let mut sizes = vec![size];
        while let Some(&own) = sizes.last().filter(|&&own| own > 1) {
            let (level, half) = (sizes.len(), own / 2);
            entry += &format!(
                " e{level} = s32[{half}] slice(v{0}), slice={{[0:{1}:2]}}\n o{level} = s32[{half}] slice(v{0}), \
                 slice={{[1:{own}:2]}}\n v{level} = s32[{half}] add(e{level}, o{level})\n",
                level - 1,
                2 * half - 1,
            );
            sizes.push(half);
        }
        let last = sizes.len() - 1;
        entry += &format!(" s{last} = s32[1] copy(v{last})\n");
        for level in (0..last).rev() {
            let (own, half, evens) = (sizes[level], sizes[level + 1], (sizes[level] + 1) / 2);
            entry += &format!(
                " f{level} = s32[1] slice(v{level}), slice={{[0:1]}}\n \
                 k{level} = s32[{0}] slice(s{1}), slice={{[0:{0}]}}\n \
                 n{level} = s32[{0}] slice(v{level}), slice={{[2:{own}:2]}}\n \
                 m{level} = s32[{0}] add(k{level}, n{level})\n \
                 g{level} = s32[{evens}] concatenate(f{level}, m{level}), dimensions={{0}}\n \
                 p{level} = s32[{own}] pad(g{level}, z), padding=0_{2}_1\n \
                 q{level} = s32[{own}] pad(s{1}, z), padding=1_{3}_1\n \
                 s{level} = s32[{own}] add(p{level}, q{level})\n",
                evens - 1,
                level + 1,
                own - (2 * evens - 1),
                own - 2 * half,
            );
        }
        check(&format!("{entry} ROOT r = s32[{size}] negate(s0)"));
    }
}

/// What `jnp.select` makes: the first condition that holds, of a stack of them.
#[test]
fn stacks_that_are_reduced() {
    let first = "first {\n a = pred[] parameter(0)\n i = s32[] parameter(1)\n b = pred[] parameter(2)\n j = s32[] parameter(3)\n \
                 more = pred[] compare(a, b), direction=GT\n most = pred[] select(more, a, b)\n \
                 same = pred[] compare(a, b), direction=EQ\n before = pred[] compare(i, j), direction=LT\n \
                 tie = pred[] and(same, before)\n own = pred[] or(more, tie)\n place = s32[] select(own, i, j)\n \
                 ROOT t = (pred[], s32[]) tuple(most, place)\n}\n";
    check_with(
        first,
        " x = f32[37] parameter(0)\n one = f32[] constant(1)\n three = f32[] constant(3)\n \
         ones = f32[37] broadcast(one), dimensions={}\n threes = f32[37] broadcast(three), dimensions={}\n \
         c = pred[37] compare(x, ones), direction=EQ\n d = pred[37] compare(x, threes), direction=GT\n \
         e = pred[1,37] reshape(c)\n f = pred[1,37] reshape(d)\n no = pred[] constant(false)\n \
         g = pred[1,37] broadcast(no), dimensions={}\n s = pred[3,37] concatenate(g, e, f), dimensions={0}\n \
         i = s32[3,37] iota(), iota_dimension=0\n zero = s32[] constant(0)\n \
         ROOT r = (pred[37], s32[37]) reduce(s, i, no, zero), dimensions={0}, to_apply=first",
    );
    check_with(
        &combination("f32", "add"),
        " x = f32[5,40] parameter(0)\n y = f32[5,40] parameter(1)\n z = f32[] constant(2)\n \
         a = f32[5,1,40] reshape(x)\n b = f32[5,1,40] reshape(y)\n \
         s = f32[5,3,40] concatenate(a, b, a), dimensions={1}\n \
         ROOT r = f32[5,40] reduce(s, z), dimensions={1}, to_apply=add",
    );
}

#[test]
fn a_reduction_of_an_array_and_one_transposed() {
    let add = combination("f32", "add");
    for (dimensions, result) in [("0,1", ""), ("1", "200"), ("0", "200")] {
        check_with(
            &add,
            &format!(
                " x = f32[200,200] parameter(0)\n y = f32[200,200] parameter(1)\n z = f32[] constant(0)\n \
                 t = f32[200,200] transpose(y), dimensions={{1,0}}\n m = f32[200,200] multiply(x, t)\n \
                 ROOT r = f32[{result}] reduce(m, z), dimensions={{{dimensions}}}, to_apply=add"
            ),
        );
    }
}

/// Sums, largest elements and softmax of arrays that are joined, at places that divide vectors and rows and at others.
#[test]
fn reductions_of_joined_arrays() {
    let computations = combination("f32", "add") + &combination("f32", "maximum");
    for (first, second) in [(1, 40), (7, 9), (8, 8), (33, 64), (64, 3), (500, 501), (70_000, 131_073)] {
        let both = first + second;
        let joined = format!(
            " x = f32[{first}] parameter(0)\n y = f32[{second}] parameter(1)\n z = f32[] constant(2)\n w = f32[{second}] multiply(y, y)\n \
             c = f32[{both}] concatenate(x, w), dimensions={{0}}\n"
        );
        for operation in ["add", "maximum"] {
            let reduced = format!("{joined} ROOT r = f32[] reduce(c, z), dimensions={{0}}, to_apply={operation}");
            check_with(&computations, &reduced);
        }
    }
    for (rows, first, second) in [(3, 1, 7), (5, 20, 20), (4, 33, 100), (40, 300, 5)] {
        let both = first + second;
        let joined = format!(
            " x = f32[{rows},{first}] parameter(0)\n y = f32[{rows},{second}] parameter(1)\n z = f32[] constant(2)\n \
             w = f32[{rows},{second}] add(y, y)\n c = f32[{rows},{both}] concatenate(x, w), dimensions={{1}}\n"
        );
        check_with(
            &computations,
            &format!("{joined} ROOT r = f32[{rows}] reduce(c, z), dimensions={{1}}, to_apply=add"),
        );
        check_with(
            &computations,
            &format!("{joined} ROOT r = f32[{both}] reduce(c, z), dimensions={{0}}, to_apply=add"),
        );
        check_with(
            &computations,
            &format!(
                "{joined} m = f32[{rows}] reduce(c, z), dimensions={{1}}, to_apply=maximum\n \
                 n = f32[{rows},{both}] broadcast(m), dimensions={{0}}\n d = f32[{rows},{both}] subtract(c, n)\n \
                 s = f32[{rows}] reduce(d, z), dimensions={{1}}, to_apply=add\n t = f32[{rows},{both}] broadcast(s), dimensions={{0}}\n \
                 ROOT r = f32[{rows},{both}] multiply(d, t)"
            ),
        );
    }
}

/// What `jnp.tile`, `jnp.repeat` and patches of an image make, and what follows them.
#[test]
fn arrays_that_are_repeated_or_cut_into_patches() {
    let computations = &combination("f32", "add");
    let programs = [
        ("f32[6,10]", "f32[3,6,2,10] broadcast(x), dimensions={1,3}", [18, 20]),
        ("f32[7,9]", "f32[7,9,4] broadcast(x), dimensions={0,1}", [7, 36]),
        ("f32[6,2,40,9]", "f32[6,40,2,9] transpose(x), dimensions={0,2,1,3}", [240, 18]),
        ("f32[5,16]", "f32[5,3,16] broadcast(x), dimensions={0,2}", [15, 16]),
    ];
    for (parameter, moved, [rows, columns]) in programs {
        let merged = format!(
            " x = {parameter} parameter(0)\n y = f32[{rows},{columns}] parameter(1)\n z = f32[] constant(1)\n m = {moved}\n \
             r = f32[{rows},{columns}] reshape(m)\n s = f32[{rows},{columns}] multiply(r, y)\n"
        );
        check_with(computations, &format!("{merged} ROOT n = f32[{rows},{columns}] negate(s)"));
        for (dimension, kept) in [(0, columns), (1, rows)] {
            for reduced in ["r", "s"] {
                check_with(
                    computations,
                    &format!(
                        "{merged} ROOT n = f32[{kept}] reduce({reduced}, z), dimensions={{{dimension}}}, to_apply=add"
                    ),
                );
            }
        }
        check_with(computations, &format!("{merged} ROOT n = f32[] reduce(r, z), dimensions={{0,1}}, to_apply=add"));
    }
}
