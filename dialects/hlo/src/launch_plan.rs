//! What a host does to run a program on a GPU: launches of kernels, copies, control flow, calls of the host's own
//! functions.
//!
//! A plan has one text, in which tools show it, modules of MLIR carry it and saved programs keep it:
//!
//! ```text
//! launch add.kernel <<<4, 256>>> ([parameter 0, 0 : 4096], to [output 0, 0 : 4096])
//! while {
//!   condition {
//!     launch compare.kernel <<<1, 256>>> ([arena, 0 : 4], to [arena, 64 : 1])
//!   }
//!   body if [arena, 64 : 1] {
//!     copy [arena, 128 : 4] -> [arena, 0 : 4]
//!   }
//! }
//! ```

use std::fmt;
use std::str::FromStr;

use crate::buffers::{Buffer, Slice};

mod text;

/// The steps of a program, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchPlan {
    /// The steps.
    pub steps: Vec<PlanStep>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanStep {
    /// A kernel.
    Launch(Launch),
    /// A copy between places of the same size, which do not overlap.
    Copy {
        /// What is copied.
        from: Slice,
        /// Where to.
        to: Slice,
    },
    /// A loop that goes through its rounds in turns until the condition of one is false.
    While(Vec<Round>),
    /// A loop that goes through its rounds in turns, so many of them.
    Repeat {
        /// Iterations.
        times: u64,
        /// The rounds.
        rounds: Vec<CountedRound>,
    },
    /// One of several ways by a scalar: a `pred`, of one byte, chooses the first if it is true, else the second; an `s32`
    /// chooses by number, and the last one if there is none of that number.
    Switch {
        /// The scalar.
        selector: Slice,
        /// The ways.
        branches: Vec<Vec<PlanStep>>,
    },
    /// A function of the host, which waits for the device and works on copies of its arrays.
    HostCall(HostCall),
}

/// An iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// What computes the condition.
    pub condition: Vec<PlanStep>,
    /// Where the condition is then, a `pred`.
    pub predicate: Slice,
    /// What is done if it is true.
    pub body: Vec<PlanStep>,
    /// What is done if it is false, before the loop ends.
    pub leave: Vec<PlanStep>,
}

/// An iteration of a loop that knows how many it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedRound {
    /// What is done.
    pub body: Vec<PlanStep>,
    /// What is done instead where the loop ends.
    pub leave: Vec<PlanStep>,
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// Blocks of the grid, which has one dimension.
    pub blocks: u64,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes that the threads of a block share beyond the memory that the kernel names itself.
    pub shared: u32,
    /// What the kernel gets.
    pub arguments: Vec<LaunchArgument>,
    /// The instructions that it computes, where its name does not say so.
    pub of: Vec<String>,
}

impl Launch {
    /// The kernel, with what it computes, for messages.
    pub fn label(&self) -> String {
        let mut label = String::new();
        self.add_label(&mut label);
        label
    }

    /// Adds that to a text.
    pub fn add_label(&self, text: &mut String) {
        text.push_str(&self.kernel);
        for (place, name) in self.of.iter().enumerate() {
            text.push_str(if place == 0 { " (" } else { ", " });
            text.push_str(name);
        }
        text.push_str(if self.of.is_empty() { "" } else { ")" });
    }
}

/// What a kernel gets: eight bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchArgument {
    /// The address of an array that the kernel reads.
    Array(Slice),
    /// That of an array that it writes, and perhaps reads.
    Written(Slice),
    /// A number.
    Number(i64),
    /// That of a description of an array, by which the GPU copies boxes of it.
    Boxes(Slice, Boxes),
}

impl LaunchArgument {
    /// Arguments for arrays that a kernel reads, and for arrays that it writes.
    pub fn arrays(
        read: impl IntoIterator<Item = Slice>,
        written: impl IntoIterator<Item = Slice>,
    ) -> Vec<LaunchArgument> {
        let read = read.into_iter().map(LaunchArgument::Array);
        read.chain(written.into_iter().map(LaunchArgument::Written)).collect()
    }

    /// The array.
    pub fn slice(&self) -> Option<Slice> {
        match *self {
            LaunchArgument::Array(slice) | LaunchArgument::Written(slice) | LaunchArgument::Boxes(slice, _) => {
                Some(slice)
            }
            LaunchArgument::Number(_) => None,
        }
    }
}

/// How the GPU sees an array of which it copies boxes to shared memory by itself: as matrices of rows of neighbours. Where a box
/// reaches beyond them, it has zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Boxes {
    /// Bytes of an element; of 4, numbers that are rounded to tf32 on their way.
    pub width: u64,
    /// Elements of a row, rows of a matrix, and matrices.
    pub sizes: [u64; 3],
    /// Bytes from a row to the next one, and from a matrix to the next one.
    pub strides: [u64; 2],
    /// Elements of a row of a box, which are 128 bytes, and its rows.
    pub sides: [u64; 2],
}

/// A call of a function of the host's runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCall {
    /// Name of the function.
    pub symbol: String,
    /// The constant that describes the call.
    pub descriptor: Vec<i64>,
    /// What is passed after the run context and the descriptor.
    pub arguments: Vec<HostArgument>,
    /// The arrays that it reads.
    pub operands: Vec<Slice>,
    /// The arrays that it writes.
    pub results: Vec<Slice>,
}

/// An address that a function of the host gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostArgument {
    /// That of an operand.
    Operand(usize),
    /// That of a result.
    Result(usize),
    /// That of a table of all operands.
    Operands,
    /// That of a table of all results.
    Results,
    /// Null.
    Nothing,
    /// That of the bytes of a text.
    Text(String),
}

impl LaunchPlan {
    /// The launches, those of nested steps too.
    pub fn launches(&self) -> Vec<&Launch> {
        launches(&self.steps)
    }

    /// The arrays of which the GPU copies boxes, each once.
    pub fn boxes(&self) -> Vec<(Slice, Boxes)> {
        let mut found = Vec::new();
        for argument in self.launches().into_iter().flat_map(|launch| &launch.arguments) {
            if let &LaunchArgument::Boxes(slice, boxes) = argument
                && !found.contains(&(slice, boxes))
            {
                found.push((slice, boxes));
            }
        }
        found
    }

    /// The places in memory that the steps name.
    pub fn slices(&self) -> Vec<Slice> {
        let mut slices = Vec::new();
        each(&self.steps, &mut |step| match step {
            PlanStep::Launch(launch) => slices.extend(launch.arguments.iter().filter_map(LaunchArgument::slice)),
            PlanStep::Copy { from, to } => slices.extend([*from, *to]),
            PlanStep::While(rounds) => slices.extend(rounds.iter().map(|round| round.predicate)),
            PlanStep::Repeat { .. } => {}
            PlanStep::Switch { selector, .. } => slices.push(*selector),
            PlanStep::HostCall(call) => slices.extend(call.operands.iter().chain(&call.results)),
        });
        slices
    }
}

/// The launches among steps and those nested in them.
pub fn launches(steps: &[PlanStep]) -> Vec<&Launch> {
    let mut launches = Vec::new();
    each(steps, &mut |step| {
        if let PlanStep::Launch(launch) = step {
            launches.push(launch);
        }
    });
    launches
}

/// Visits steps and those nested in them.
fn each<'p>(steps: &'p [PlanStep], visit: &mut dyn FnMut(&'p PlanStep)) {
    for step in steps {
        visit(step);
        match step {
            PlanStep::While(rounds) => {
                for Round { condition, body, leave, .. } in rounds {
                    [condition, body, leave].into_iter().for_each(|steps| each(steps, visit));
                }
            }
            PlanStep::Repeat { rounds, .. } => {
                for CountedRound { body, leave } in rounds {
                    [body, leave].into_iter().for_each(|steps| each(steps, visit));
                }
            }
            PlanStep::Switch { branches, .. } => branches.iter().for_each(|branch| each(branch, visit)),
            PlanStep::Launch(_) | PlanStep::Copy { .. } | PlanStep::HostCall(_) => {}
        }
    }
}

impl fmt::Display for LaunchPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_steps(f, &self.steps, 0)
    }
}

impl FromStr for LaunchPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(LaunchPlan { steps: text::read_steps(text)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(buffer: Buffer, offset: usize, size: usize) -> Slice {
        Slice { buffer, offset, size }
    }

    #[test]
    fn plans_are_read_as_they_are_written() {
        let flag = slice(Buffer::Arena, 64, 1);
        let boxes = Boxes { width: 2, sizes: [512, 256, 4], strides: [1024, 262_144], sides: [64, 128] };
        let launch = PlanStep::Launch(Launch {
            kernel: "add.kernel".into(),
            blocks: 4,
            threads: 256,
            shared: 98304,
            arguments: vec![
                LaunchArgument::Array(slice(Buffer::Parameter(3), 8, 16)),
                LaunchArgument::Number(-2),
                LaunchArgument::Boxes(slice(Buffer::Arena, 16, 1 << 20), boxes),
                LaunchArgument::Written(slice(Buffer::Output(0), 0, 16)),
            ],
            of: vec!["sums.1".into(), "a b".into()],
        });
        let copy = PlanStep::Copy { from: slice(Buffer::Constant(0), 0, 4), to: slice(Buffer::Output(1), 0, 4) };
        let call = PlanStep::HostCall(HostCall {
            symbol: "halo_custom_call".into(),
            descriptor: vec![1, -7],
            arguments: vec![
                HostArgument::Text("a, \"b\"\n(%)".into()),
                HostArgument::Operand(0),
                HostArgument::Result(1),
                HostArgument::Operands,
                HostArgument::Results,
                HostArgument::Nothing,
                HostArgument::Text(String::new()),
            ],
            operands: vec![flag],
            results: Vec::new(),
        });
        let round = |leave| Round {
            condition: vec![launch.clone()],
            predicate: flag,
            body: vec![PlanStep::Switch { selector: flag, branches: vec![vec![copy.clone()], Vec::new()] }],
            leave,
        };
        let counted = |leave| CountedRound { body: vec![launch.clone()], leave };
        let repeat = PlanStep::Repeat { times: 7, rounds: vec![counted(Vec::new()), counted(vec![copy.clone()])] };
        let plan = LaunchPlan {
            steps: vec![PlanStep::While(vec![round(Vec::new()), round(vec![copy.clone()])]), call, repeat, launch],
        };
        assert_eq!(plan.to_string().parse(), Ok(plan.clone()), "{plan}");
        assert_eq!(plan.launches().len(), 5);
        assert_eq!(plan.boxes(), [(slice(Buffer::Arena, 16, 1 << 20), boxes)]);
    }

    #[test]
    fn malformed_plans_are_refused() {
        for text in [
            "jump",
            "host f [] () [] -> []",
            "copy [arena, 0 : 4]",
            "copy [arena, 0 : 4] -> [stack, 0 : 4]",
            "launch f <<<1, 1>>> (",
            "launch f <<<1, 1>>> (to 3)",
            "while {\n  condition {\n  }\n}",
            "repeat 3 {\n  else {\n  }\n}",
            "repeat {\n  body {\n  }\n}",
            "switch [arena, 0 : 4] {",
            "}",
            "host call f [99999999999999999999] () [] -> []",
        ] {
            assert!(text.parse::<LaunchPlan>().is_err(), "{text}");
        }
        assert_eq!("".parse(), Ok(LaunchPlan::default()));
    }
}
