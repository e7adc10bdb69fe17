//! Clusters of points by k-means: assignment and means alternate in one `while` until no mean moves.

use std::path::PathBuf;

use halo::builder::{HloBuilder, Op};
use halo::{Client, CompileOptions, ElementType, Module, Shape, View};
use hlo::ops::dot::DotDimensions;

const POINTS: i64 = 300;
const CLUSTERS: i64 = 3;

/// The number of the nearest mean for each point.
fn nearest<'b>(b: &'b HloBuilder, points: Op<'b>, means: Op<'b>) -> Op<'b> {
    let cube = [POINTS, CLUSTERS, 2];
    let offsets = b.broadcast_in_dim(points, &cube, &[0, 2]) - b.broadcast_in_dim(means, &cube, &[1, 2]);
    let distances = b.reduce(offsets * offsets, b.constant(0f32), |_, sum, value| sum + value, &[2]);
    let numbers = b.iota(Shape::of::<i32>([POINTS, CLUSTERS]), 1);
    let least = b.reduce_variadic(
        &[distances, numbers],
        &[b.constant(f32::INFINITY), b.constant(0i32)],
        |b, old, new| {
            let is_nearer = new[0].lt(old[0]);
            b.tuple(&[is_nearer.select(new[0], old[0]), is_nearer.select(new[1], old[1])])
        },
        &[1],
    );
    least.get(1)
}

/// The mean of the points that are assigned to each cluster.
fn means<'b>(b: &'b HloBuilder, points: Op<'b>, assigned: Op<'b>) -> Op<'b> {
    let table = b.iota(Shape::of::<i32>([POINTS, CLUSTERS]), 1);
    let members = b.eq(table, assigned, &[0]).convert(ElementType::F32);
    let over_points = DotDimensions { lhs_contracting: vec![0], rhs_contracting: vec![0], ..DotDimensions::default() };
    let sums = b.dot_general(members, points, &over_points, None);
    let counts = b.reduce(members, b.constant(0f32), |_, sum, value| sum + value, &[0]);
    b.div(sums, counts.max(1.0), &[0])
}

/// The means and the number of rounds it took.
fn program() -> Result<Module, Box<dyn std::error::Error>> {
    let b = HloBuilder::new("k_means");
    let points = b.parameter(0, Shape::of::<f32>([POINTS, 2]), "points");
    let first = b.slice(points, &[0, 0], &[CLUSTERS, 2], &[]);
    let start = b.tuple(&[b.constant(0i32), b.constant(true), points, first]);
    let end = b.while_(
        start,
        |_, state| state.get(1) & state.get(0).lt(100),
        |b, state| {
            let (points, old) = (state.get(2), state.get(3));
            let new = means(b, points, nearest(b, points, old));
            let moved = b.reduce_all(new.ne(old), b.constant(false), |_, any, one| any | one);
            b.tuple(&[state.get(0) + 1, moved, points, new])
        },
    );
    Ok(b.build(b.tuple(&[end.get(3), end.get(0)]))?)
}

/// Points about (1, 1), (5, 2) and (2, 6), in turn.
fn points() -> Vec<f32> {
    const CENTRES: [[f32; 2]; CLUSTERS as usize] = [[1., 1.], [5., 2.], [2., 6.]];
    let angle = |number: i64| number as f32 * 2.4;
    let radius = |number: i64| (number as f32 / POINTS as f32).sqrt();
    (0..POINTS)
        .flat_map(|number| {
            let [x, y] = CENTRES[(number % CLUSTERS) as usize];
            [x + radius(number) * angle(number).cos(), y + radius(number) * angle(number).sin()]
        })
        .collect()
}

/// Finds the clusters.
pub fn run(_arguments: &[PathBuf]) -> super::Outcome {
    let executable = Client::cpu()?.compile(&program()?, &CompileOptions::default())?;
    let points = points();
    let view = View::new(&[POINTS, 2][..], &points).ok_or("as many numbers as points have")?;
    let result = executable.execute((&view,))?;
    let [means, rounds] = result.as_tuple().ok_or("a tuple")? else { return Err("two results".into()) };
    let means: Vec<String> = means
        .as_slice::<f32>()
        .unwrap_or_default()
        .chunks_exact(2)
        .map(|mean| format!("({:.1}, {:.1})", mean[0], mean[1]))
        .collect();
    let rounds = rounds.as_slice::<i32>().and_then(|rounds| rounds.first()).ok_or("a number of rounds")?;
    Ok(format!("means {} after {rounds} rounds", means.join(" ")))
}
