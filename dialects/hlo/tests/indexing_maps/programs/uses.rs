//! What the maps of programs are for: how accesses lie in memory, and how much of an operand is used.

use hlo::indexing_maps::{Analysis, layouts};
use hlo::shape::ArrayShape;
use indexing::queries::Access;
use melior::Context;

/// Coalescing of 8 elements and utilisation for each operand of the root, in the order of its maps.
fn uses(instructions: &str) -> Vec<(Vec<Access>, f64)> {
    let text = format!("HloModule m\nENTRY e {{\n{instructions}\n}}\n");
    let module = hlo::text::read(&text).unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let output = entry.root().shape.as_array().expect("an array");
    let array = |i: usize| -> &ArrayShape { entry.get(entry.root().operands[i]).shape.as_array().expect("an array") };
    let context = Context::new_with_threading(false);
    let groups = Analysis::new(&context, entry).output_to_input(entry.root, 0);
    let use_of = |(i, group): (usize, &hlo::indexing_maps::ValueIndexing<'_>)| {
        let access = group.maps().iter().map(|entry| layouts::coalescing(&entry.map, output, array(i), 8)).collect();
        (access, layouts::operand_utilisation(group, array(i)).fraction())
    };
    groups.iter().enumerate().map(use_of).collect()
}

#[test]
fn layouts_decide_what_is_coalesced() {
    let transposed = "p = f32[64,128] parameter(0)\n ROOT t = f32[128,64] transpose(p), dimensions={1,0}";
    assert_eq!(uses(transposed), [(vec![Access::Strided(128)], 1.0)]);
    let renamed = "p = f32[64,128] parameter(0)\n ROOT t = f32[128,64]{0,1} transpose(p), dimensions={1,0}";
    assert_eq!(uses(renamed), [(vec![Access::Contiguous], 1.0)]);
    let broadcast = "p = f32[64] parameter(0)\n ROOT b = f32[64,128] broadcast(p), dimensions={0}";
    assert_eq!(uses(broadcast), [(vec![Access::Broadcast], 1.0)]);
    // A last dimension of one element is no direction to read in.
    let column = "p = f32[64,128,1] parameter(0)\n ROOT r = f32[64,128,1] reverse(p), dimensions={1}";
    assert_eq!(uses(column), [(vec![Access::Strided(-1)], 1.0)]);
}

#[test]
fn slices_and_gathers_use_a_part() {
    let slice = "p = f32[1000,1000] parameter(0)\n ROOT s = f32[500,250] slice(p), slice={[0:1000:2], [0:1000:4]}";
    assert_eq!(uses(slice), [(vec![Access::Strided(4)], 0.125)]);
    let rows = "p = f32[512,64] parameter(0)\n i = s32[4,1] parameter(1)\n
         ROOT g = f32[4,64] gather(p, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
         index_vector_dim=1, slice_sizes={1,64}";
    assert_eq!(uses(rows)[0], (vec![Access::Contiguous], 4.0 / 512.0));
}

#[test]
fn physical_maps_go_from_memory_to_memory() {
    let module = hlo::text::read(
        "HloModule m\nENTRY e {\n p = f32[10,20,30] parameter(0)\n
         ROOT t = f32[10,20,30]{0,2,1} copy(p)\n}",
    )
    .unwrap_or_else(|errors| panic!("{errors}"));
    let entry = module.entry();
    let context = Context::new_with_threading(false);
    let map = &Analysis::new(&context, entry).output_to_input(entry.root, 0)[0].maps()[0].map.clone();
    let shape = |i: usize| entry.instructions[i].shape.as_array().expect("an array");
    assert_eq!(
        layouts::physical(map, shape(1), shape(0)).to_string(),
        "(d0, d1, d2) -> (d2, d0, d1), domain: d0 in [0, 19], d1 in [0, 29], d2 in [0, 9]"
    );
}
