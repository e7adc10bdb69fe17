//! Places for the boxes of a graph: layers by longest path, each ordered by where its neighbours are.
//!
//! (K. Sugiyama, S. Tagawa and M. Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981, without
//! dummy nodes: edges may cross boxes of the layers between.)

/// A box, and where it was placed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

const GAP: f64 = 24.0;
const LAYER_GAP: f64 = 56.0;
const SWEEPS: usize = 6;

/// Places boxes of given sizes; edges go from earlier boxes to later ones. Boxes without operands stand above their
/// first user.
pub(super) fn layout(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Vec<Place> {
    let count = sizes.len();
    let mut operands: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &(from, to) in edges {
        operands[to].push(from);
        users[from].push(to);
    }
    let mut layer = vec![0usize; count];
    for node in 0..count {
        layer[node] = operands[node].iter().map(|&operand| layer[operand] + 1).max().unwrap_or(0);
    }
    for node in 0..count {
        if operands[node].is_empty() {
            layer[node] = users[node].iter().map(|&user| layer[user].saturating_sub(1)).min().unwrap_or(0);
        }
    }
    let depth = layer.iter().max().map_or(0, |deepest| deepest + 1);
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); depth];
    (0..count).for_each(|node| layers[layer[node]].push(node));

    let mut center = vec![0.0; count];
    for nodes in &mut layers {
        spread(nodes, sizes, &mut center);
    }
    for sweep in 0..SWEEPS {
        let downwards = sweep % 2 == 0;
        let neighbours = if downwards { &operands } else { &users };
        let order: Vec<usize> = if downwards { (0..depth).collect() } else { (0..depth).rev().collect() };
        for position in order {
            let nodes = &mut layers[position];
            for &node in nodes.iter() {
                if !neighbours[node].is_empty() {
                    let sum: f64 = neighbours[node].iter().map(|&neighbour| center[neighbour]).sum();
                    center[node] = sum / neighbours[node].len() as f64;
                }
            }
            nodes.sort_by(|&a, &b| center[a].total_cmp(&center[b]));
            spread(nodes, sizes, &mut center);
        }
    }

    let mut places = vec![Place::default(); count];
    let mut y = 0.0;
    for nodes in &layers {
        let tallest = nodes.iter().map(|&node| sizes[node].1).fold(0.0, f64::max);
        for &node in nodes {
            let (width, height) = sizes[node];
            places[node] = Place { x: center[node] - width / 2.0, y: y + tallest - height, width, height };
        }
        y += tallest + LAYER_GAP;
    }
    let left = places.iter().map(|place| place.x).fold(f64::INFINITY, f64::min);
    places.iter_mut().for_each(|place| place.x -= left);
    places
}

/// Moves the boxes of a layer, in order, so far apart that they do not overlap, and keeps their middle where it was.
fn spread(nodes: &[usize], sizes: &[(f64, f64)], center: &mut [f64]) {
    if nodes.is_empty() {
        return;
    }
    let mean = |center: &[f64]| nodes.iter().map(|&node| center[node]).sum::<f64>() / nodes.len() as f64;
    let wanted = mean(center);
    let mut end = f64::NEG_INFINITY;
    for &node in nodes {
        let half = sizes[node].0 / 2.0;
        center[node] = center[node].max(end + GAP + half);
        end = center[node] + half;
    }
    let shift = wanted - mean(center);
    nodes.iter().for_each(|&node| center[node] += shift);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_do_not_overlap_and_edges_go_down() {
        let sizes = vec![(100.0, 40.0); 7];
        let edges = [(0, 2), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5), (6, 5)];
        let mut order = edges;
        order[6] = (4, 6);
        let places = layout(&sizes, &order);
        for (number, a) in places.iter().enumerate() {
            for b in &places[..number] {
                let apart =
                    a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
                assert!(apart, "{a:?} {b:?}");
            }
        }
        for (from, to) in order {
            assert!(places[from].y < places[to].y);
        }
    }
}
