//! Programs on several devices: one evaluation each, on a thread of its own, that meet for collectives.
//!
//! Who takes part in a collective leaves a copy of its operands on a table and waits until all copies of its group are
//! there. Values are never changed on the table, so nobody waits for others to be done with them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::value::EvalValue;
use super::{Environment, EvalError, EvalFailure, Evaluator, check_length};
use hlo::devices::{self, DeviceCount, MOST_DEVICES};
use hlo::graph::{Instruction, Module};
use hlo::literal::Literal;
use hlo::op_kind::OpKind;
use hlo::ops::collective_permute::CollectivePermuteAttributes;
use hlo::ops::send_recv::ChannelAttributes;

/// The operands of each member of a group, in order.
type MemberOperands = Vec<Vec<EvalValue>>;

/// Evaluates a module's entry computation on all devices of its header, each with arguments of its own given by parameter
/// number. The results are those of [`evaluate`](super::evaluate), by device.
///
/// # Errors
/// The first failure of any device; also that devices wait for one another for ever.
pub fn evaluate_on_devices(module: &Module, arguments: &[Vec<Literal>]) -> Result<Vec<Literal>, EvalError> {
    module.check()?;
    devices::check(module)?;
    check_length(module)?;
    let count = DeviceCount::of(module);
    if count.total() != arguments.len() as i64 || count.total() > MOST_DEVICES {
        return Err(EvalError::Devices { expected: count.total(), found: arguments.len() });
    }
    let table = Table::new(count, arguments.len());
    let results: Vec<Option<Literal>> = thread::scope(|scope| {
        let run = |number: usize| {
            let (table, arguments) = (&table, &arguments[number]);
            move || {
                let _end = End { table, number };
                run_one(module, arguments, table, number).map_err(|error| table.fail(number, error)).ok()
            }
        };
        let threads: Vec<_> = (0..arguments.len())
            .map(|number| {
                let thread = thread::Builder::new().name(format!("device {number}")).spawn_scoped(scope, run(number));
                thread.map_err(|error| table.fail(number, EvalError::Arguments(format!("no thread: {error}"))))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| match thread.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(result)) => result,
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(()) => None,
            })
            .collect()
    });
    let failure = table.lock().failure.take();
    match failure {
        Some((number, error)) => Err(EvalError::OnDevice { number, error: Box::new(error) }),
        None => results.into_iter().collect::<Option<_>>().ok_or_else(|| EvalError::Arguments("no result".into())),
    }
}

fn run_one(module: &Module, arguments: &[Literal], table: &Table, number: usize) -> Result<Literal, EvalError> {
    let as_arguments = |failure: EvalFailure| EvalError::Arguments(failure.to_string());
    let arguments = arguments.iter().map(EvalValue::from_literal).collect::<Result<_, _>>().map_err(as_arguments)?;
    let mut environment = Environment::new();
    environment.device = Some(Device { table, number, rounds: HashMap::new(), sources: HashMap::new() });
    let value = Evaluator::new(Some(module), &mut environment).run(module.entry(), arguments)?;
    Ok(value.zeroed().map_err(as_arguments)?.to_literal())
}

/// What the devices of an evaluation share.
pub(super) struct Table {
    count: DeviceCount,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Operands left for a meeting, by member.
    left: HashMap<Meeting, Left>,
    /// Values sent, by channel, sender and receiver.
    sent: HashMap<(Option<i64>, usize, usize), VecDeque<EvalValue>>,
    /// Devices that neither wait nor have ended.
    running: usize,
    /// Devices that wait, and for what.
    waiting: HashMap<usize, String>,
    failure: Option<(usize, EvalError)>,
}

/// Operands left by the members of a meeting, and how many have taken them.
#[derive(Default)]
struct Left {
    operands: HashMap<usize, Vec<EvalValue>>,
    taken: usize,
}

/// What is met for: an instruction or its channel, the group, and how often these have met before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Meeting {
    what: String,
    group: Vec<usize>,
    round: u64,
}

impl Table {
    fn new(count: DeviceCount, devices: usize) -> Self {
        let state = State {
            left: HashMap::new(),
            sent: HashMap::new(),
            running: devices,
            waiting: HashMap::new(),
            failure: None,
        };
        Table { count, state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, number: usize, error: EvalError) {
        self.lock().failure.get_or_insert((number, error));
        self.changed.notify_all();
    }

    /// Waits until `take` gives something.
    fn wait<T>(
        &self,
        number: usize,
        what: &str,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, EvalFailure> {
        let mut state = self.lock();
        loop {
            if let Some(taken) = take(&mut state) {
                return Ok(taken);
            }
            let is_new = state.waiting.insert(number, what.to_string()).is_none();
            state.running -= usize::from(is_new);
            let failed = state.failure.as_ref().map(|_| "another device failed".to_string());
            if let Some(message) = failed.or_else(|| state.deadlock()) {
                state.waiting.remove(&number);
                state.running += 1;
                return Err(EvalFailure::Devices(message));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Changes what devices may wait for. All that wait look again, and run until they find nothing.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        state.running += state.waiting.len();
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }
}

impl State {
    /// That devices wait and none runs, in words.
    fn deadlock(&self) -> Option<String> {
        if self.running > 0 || self.waiting.is_empty() {
            return None;
        }
        let waiting: BTreeMap<_, _> = self.waiting.iter().collect();
        let waiting: Vec<String> =
            waiting.into_iter().map(|(number, what)| format!("device {number} for {what}")).collect();
        Some(format!("devices wait for ever: {}", waiting.join(", ")))
    }
}

/// Notes the end of a device, also by a panic.
struct End<'t> {
    table: &'t Table,
    number: usize,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let mut state = self.table.lock();
        state.running = state.running.saturating_sub(1);
        let message = if thread::panicking() { Some("the evaluation panicked".into()) } else { state.deadlock() };
        if let Some(message) = message {
            state.failure.get_or_insert((self.number, EvalError::Arguments(message)));
        }
        drop(state);
        self.table.changed.notify_all();
    }
}

/// One of several devices.
pub(super) struct Device<'t> {
    table: &'t Table,
    number: usize,
    /// How often this device has met, by what it was for.
    rounds: HashMap<(String, Vec<usize>), u64>,
    /// Whom this device receives from, by channel: what the last `recv` said.
    sources: HashMap<Option<i64>, Option<usize>>,
}

impl Device<'_> {
    /// Number among the replicas, or among the partitions.
    pub(super) fn id(&self, kind: OpKind) -> u32 {
        let partitions = self.table.count.partitions as usize;
        (if kind == OpKind::ReplicaId { self.number / partitions } else { self.number % partitions }) as u32
    }

    /// The operands of all members of this device's group, in order, and this device's place among them. None where the
    /// device is in no group.
    pub(super) fn meet(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<Option<(usize, MemberOperands)>, EvalFailure> {
        let groups = devices::groups(instruction, self.table.count).map_err(EvalFailure::Unsupported)?;
        let groups = groups.ok_or_else(|| EvalFailure::malformed("the collective has no groups"))?;
        let Some(group) = groups.into_iter().find(|group| group.contains(&self.number)) else { return Ok(None) };
        let place = group.iter().position(|&member| member == self.number).unwrap_or_default();
        Ok(Some((place, self.meet_group(instruction, group, operands)?)))
    }

    /// What the device that sends to this one by a `collective-permute` has as operands.
    pub(super) fn permuted(
        &mut self,
        instruction: &Instruction,
        operands: Vec<EvalValue>,
    ) -> Result<Option<Vec<EvalValue>>, EvalFailure> {
        let CollectivePermuteAttributes { slice_sizes, .. } = instruction.attributes()?;
        if slice_sizes.is_some() {
            return Err(EvalFailure::Unsupported("slices exchanged by several devices".into()));
        }
        let pairs = devices::pairs(instruction, self.table.count).map_err(EvalFailure::Unsupported)?;
        let mut members: Vec<usize> = pairs.iter().flatten().copied().collect();
        members.sort_unstable();
        members.dedup();
        if !members.contains(&self.number) {
            return Ok(None);
        }
        let all = self.meet_group(instruction, members.clone(), operands)?;
        let source = pairs.iter().find(|[_, target]| *target == self.number).map(|[source, _]| *source);
        let place = source.and_then(|source| members.iter().position(|&member| member == source));
        Ok(place.and_then(|place| all.into_iter().nth(place)))
    }

    fn meet_group(
        &mut self,
        instruction: &Instruction,
        group: Vec<usize>,
        operands: Vec<EvalValue>,
    ) -> Result<MemberOperands, EvalFailure> {
        let channel = devices::channel(instruction)?;
        let what = channel.map_or_else(|| instruction.name.clone(), |id| format!("{} {id}", instruction.kind));
        let round = self.rounds.entry((what.clone(), group.clone())).or_default();
        let meeting = Meeting { what, group, round: *round };
        *round += 1;
        self.table.change(|state| {
            state.left.entry(meeting.clone()).or_default().operands.insert(self.number, operands);
        });
        let text = format!("`{}` with devices {:?}", meeting.what, meeting.group);
        self.table.wait(self.number, &text, |state| {
            let left = state.left.get_mut(&meeting)?;
            let all = meeting.group.iter().map(|member| left.operands.get(member).cloned()).collect::<Option<_>>()?;
            left.taken += 1;
            if left.taken == meeting.group.len() {
                state.left.remove(&meeting);
            }
            Some(all)
        })
    }

    /// Leaves a value for the device that receives on the channel, if one receives from this device.
    pub(super) fn send(&mut self, instruction: &Instruction, value: EvalValue) -> Result<(), EvalFailure> {
        let ChannelAttributes { channel_id, .. } = instruction.attributes()?;
        let pairs = devices::pairs(instruction, self.table.count).map_err(EvalFailure::Unsupported)?;
        if let Some([source, target]) = pairs.into_iter().find(|[source, _]| *source == self.number) {
            self.table.change(|state| state.sent.entry((channel_id, source, target)).or_default().push_back(value));
        }
        Ok(())
    }

    /// Notes whom the device will receive from.
    pub(super) fn start_to_receive(&mut self, instruction: &Instruction) -> Result<(), EvalFailure> {
        let ChannelAttributes { channel_id, .. } = instruction.attributes()?;
        let pairs = devices::pairs(instruction, self.table.count).map_err(EvalFailure::Unsupported)?;
        let source = pairs.into_iter().find(|[_, target]| *target == self.number).map(|[source, _]| source);
        self.sources.insert(channel_id, source);
        Ok(())
    }

    /// The value that was sent to this device, if any device sends to it.
    pub(super) fn receive(&mut self, instruction: &Instruction) -> Result<Option<EvalValue>, EvalFailure> {
        let ChannelAttributes { channel_id, .. } = instruction.attributes()?;
        let Some(&Some(source)) = self.sources.get(&channel_id) else { return Ok(None) };
        let key = (channel_id, source, self.number);
        let text = format!("a value of device {source}");
        self.table.wait(self.number, &text, |state| state.sent.get_mut(&key)?.pop_front()).map(Some)
    }
}
