//! Forms of the text of 2017 to 2020: they read as today's.

use hlo::graph::Module;
use hlo::text::print;

/// The entry's instructions `then` mean what `now` does.
fn same(before: &str, then: &str, now: &str) {
    let module = |body: &str| -> Module {
        let text = format!("HloModule m\n{before}\nENTRY e {{\n{body}\n}}");
        text.parse().unwrap_or_else(|errors| panic!("{errors}\n{text}"))
    };
    assert_eq!(print(&module(then)), print(&module(now)));
}

const SUM: &str = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y)\n}";

#[test]
fn comparisons_were_operations() {
    for (then, now) in [
        ("equal-to", "EQ"),
        ("not-equal-to", "NE"),
        ("less-than", "LT"),
        ("less-than-or-equal-to", "LE"),
        ("greater-than", "GT"),
        ("greater-than-or-equal-to", "GE"),
    ] {
        let program = |root: &str| format!("a = f32[2] parameter(0)\nROOT r = pred[2] {root}");
        same("", &program(&format!("{then}(a, a)")), &program(&format!("compare(a, a), direction={now}")));
    }
}

#[test]
fn operations_had_other_names() {
    let token = |opcode: &str| format!("t = token[] {opcode}()\nROOT a = f32[] constant(1)");
    same("", &token("generate-token"), &token("after-all"));
    let select = |opcode: &str| {
        format!("p = pred[] parameter(0)\nt = (f32[2]) parameter(1)\nROOT r = (f32[2]) {opcode}(p, t, t)")
    };
    same("", &select("tuple-select"), &select("select"));
    let sum = |opcode: &str| {
        format!("a = f32[2] parameter(0)\nROOT r = f32[2] {opcode}(a), replica_groups={{}}, to_apply=add")
    };
    same(SUM, &sum("cross-replica-sum"), &sum("all-reduce"));
}

#[test]
fn computations_went_without_saying() {
    let module: Module = "HloModule m\nENTRY e {\na = f32[2] parameter(0)\nROOT r = f32[2] cross-replica-sum(a)\n}"
        .parse()
        .expect("a module");
    let sum = &module.entry().instructions[1].computations[0];
    assert_eq!(sum.instructions[2].kind, hlo::op_kind::OpKind::Add);
    let module: Module = "HloModule m\nENTRY e {\nk = f32[2] parameter(0)\nv = s32[2] parameter(1)\n\
        ROOT r = (f32[2], s32[2]) sort(k, v), dimensions={0}\n}"
        .parse()
        .expect("a module");
    let order = &module.entry().instructions[2].computations[0];
    assert_eq!(order.instructions.len(), 5);
    assert_eq!(order.instructions[4].operands, [hlo::graph::InstructionId(0), hlo::graph::InstructionId(1)]);
}

#[test]
fn gathers_had_other_attributes() {
    let gather = |names: [&str; 4]| {
        let [offset, collapsed, map, sizes] = names;
        format!(
            "a = f32[4,5] parameter(0)\ni = s32[3] parameter(1)\nROOT r = f32[3,5] gather(a, i), {offset}={{1}}, \
             {collapsed}={{0}}, {map}={{0}}, index_vector_dim=1, {sizes}={{1,5}}"
        )
    };
    same(
        "",
        &gather(["output_window_dims", "elided_window_dims", "gather_dims_to_operand_dims", "window_bounds"]),
        &gather(["offset_dims", "collapsed_slice_dims", "start_index_map", "slice_sizes"]),
    );
}

#[test]
fn a_dot_contracted_by_its_ranks() {
    for (lhs, rhs, result, dimensions) in [
        ("2,3", "3,4", "2,4", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("2,3", "3", "2", "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("3", "3", "", "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    ] {
        let dot = |attributes: &str| {
            format!(
                "a = f32[{lhs}] parameter(0)\nb = f32[{rhs}] parameter(1)\nROOT r = f32[{result}] dot(a, b){attributes}"
            )
        };
        same("", &dot(""), &dot(&format!(", {dimensions}")));
    }
    let outer = "HloModule m\nENTRY e {\na = f32[2] parameter(0)\nROOT r = f32[2,2] dot(a, a)\n}";
    let outer: Module = outer.parse().expect("a product that contracts nothing");
    assert!(!print(&outer).contains("contracting"));
}

#[test]
fn constants_repeated_their_shape() {
    for (then, now) in [
        ("f32[2,2] constant(f32[2,2] { { 1, 2 }, { 3, 4 } })", "f32[2,2] constant({ { 1, 2 }, { 3, 4 } })"),
        ("f32[2]{0} constant(f32[2]{0} {1, 2})", "f32[2]{0} constant({1, 2})"),
        ("s32[] constant(s32[] 3)", "s32[] constant(3)"),
    ] {
        same("", &format!("ROOT c = {then}"), &format!("ROOT c = {now}"));
    }
}

#[test]
fn fusions_had_other_kinds() {
    let program = |kind: &str| {
        format!("a = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT r = f32[] fusion(a, b), kind={kind}, calls=add")
    };
    same(SUM, &program("kTransposeDot"), &program("kOutput"));
}

#[test]
fn an_alias_of_a_whole_parameter_is_its_number() {
    let module = |alias: &str| -> Module {
        format!("HloModule m, input_output_alias={{ {{}}: {alias} }}\nENTRY e {{\nROOT a = f32[2] parameter(0)\n}}")
            .parse()
            .unwrap_or_else(|errors| panic!("{errors}"))
    };
    assert_eq!(module("0").input_output_aliases, module("(0, {})").input_output_aliases);
}

#[test]
fn an_asynchronous_call_names_its_function() {
    let module: Module = format!(
        "HloModule m\n{SUM}\nENTRY e {{\na = f32[] parameter(0)\n\
         s = ((f32[], f32[]), f32[], s32[]) call-start(a, a), to_apply=add\nROOT d = f32[] call-done(s)\n}}"
    )
    .parse()
    .unwrap_or_else(|errors| panic!("{errors}"));
    let body = &module.entry().instructions[1].computations[0];
    assert!(body.instructions[2].callee.is_some());
    assert_eq!(print(&print(&module).parse().expect("its text")), print(&module));
}
