//! The devices that run one program together, and where they meet.
//!
//! An execution has one [`Devices`], of which every device's context knows its own number. The members of a group
//! meet for each collective: each shows where its operands are, waits for the others, copies what it needs from them, and
//! waits until nobody reads its operands any more. Values that are sent wait until they are received.
//!
//! Nobody waits in vain: a device that fails, one that ends without taking part, and devices that wait for one another are
//! noticed at once, and a device that computes for too long when a time limit has passed. Then every device stops waiting,
//! and the execution fails with the first reason. The next execution starts anew.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long devices wait for one another, if nobody says.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(60);

/// What one member of a group brings to a meeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contribution {
    /// Addresses of its operands.
    pub operands: Vec<usize>,
    /// What it does: members that do different things do not belong together.
    pub descriptor: Vec<i64>,
}

/// The first failure of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFailure {
    /// The device that failed or waited.
    pub device: usize,
    /// Why.
    pub message: String,
}

/// Members that have come together, and those that have not left yet.
#[derive(Debug, Default)]
struct Meeting {
    contributions: HashMap<usize, Contribution>,
    /// Members still to copy; none while the group is not complete.
    inside: usize,
    /// Meetings of this group so far.
    generation: u64,
}

/// What a device does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Activity {
    Runs,
    /// Waits, for this.
    Waits(String),
    Ended,
}

/// The bytes of each array that is sent.
type Message = Vec<Vec<u8>>;

#[derive(Debug)]
struct State {
    /// By the name of the collective and the group's first member.
    meetings: HashMap<(String, usize), Meeting>,
    /// Sent and not received, by channel, sender and receiver.
    sent: HashMap<(i64, usize, usize), VecDeque<Message>>,
    activities: Vec<Activity>,
    failure: Option<DeviceFailure>,
}

/// The devices of one execution.
#[derive(Debug)]
pub struct Devices {
    replicas: usize,
    partitions: usize,
    time_limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

impl Devices {
    /// Devices that start to run.
    pub fn new(replicas: usize, partitions: usize, time_limit: Duration) -> Self {
        let state = State {
            meetings: HashMap::new(),
            sent: HashMap::new(),
            activities: vec![Activity::Runs; replicas * partitions],
            failure: None,
        };
        Devices { replicas, partitions, time_limit, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Number of devices.
    pub fn count(&self) -> usize {
        self.replicas * self.partitions
    }

    /// Number of a device among the replicas.
    pub(crate) fn replica(&self, device: usize) -> usize {
        device / self.partitions
    }

    /// Number of a device among the partitions.
    pub(crate) fn partition(&self, device: usize) -> usize {
        device % self.partitions
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first failure.
    pub fn failure(&self) -> Option<DeviceFailure> {
        self.lock().failure.clone()
    }

    /// Makes the execution fail: nobody waits any more.
    pub fn fail(&self, device: usize, message: impl Into<String>) {
        self.lock().fail(device, message.into());
        self.changed.notify_all();
    }

    /// Notes that a device runs no more.
    pub fn end(&self, device: usize) {
        let mut state = self.lock();
        state.activities[device] = Activity::Ended;
        state.look_for_deadlock();
        drop(state);
        self.changed.notify_all();
    }

    /// Brings the members of a group together. `copy` is called with what each contributed, in the order of the group,
    /// while none of them goes on.
    pub(crate) fn meet(
        &self,
        name: &str,
        device: usize,
        group: &[usize],
        contribution: Contribution,
        copy: impl FnOnce(&[Contribution]) -> Result<(), String>,
    ) -> Result<(), String> {
        let key = (name.to_string(), group.iter().copied().min().unwrap_or(device));
        let mut state = self.lock();
        state.check()?;
        let meeting = state.meetings.entry(key.clone()).or_default();
        if let Some(other) = meeting.contributions.values().find(|other| other.descriptor != contribution.descriptor) {
            let message = format!("devices disagree: {:?} and {:?}", contribution.descriptor, other.descriptor);
            state.fail(device, message);
            self.changed.notify_all();
            return state.check();
        }
        meeting.contributions.insert(device, contribution);
        let generation = meeting.generation;
        let is_complete = |meeting: &Meeting| meeting.contributions.len() == group.len();
        if is_complete(meeting) {
            meeting.inside = group.len();
            for &member in group {
                state.activities[member] = Activity::Runs;
            }
            self.changed.notify_all();
        } else {
            let waits = format!("`{name}` with devices {group:?}");
            state = self.wait(state, device, &waits, |state| state.meetings.get(&key).is_some_and(is_complete))?;
        }
        let meeting = state.meetings.get(&key).map(|meeting| &meeting.contributions);
        let contributions: Option<Vec<Contribution>> =
            meeting.and_then(|meeting| group.iter().map(|member| meeting.get(member).cloned()).collect());
        drop(state);
        let result = match contributions {
            Some(contributions) => copy(&contributions),
            None => Err("a member is missing".to_string()),
        };
        // All members are here and only copy, so that this wait is short, and must not end before it is over.
        let mut state = self.lock();
        if let Some(meeting) = state.meetings.get_mut(&key) {
            meeting.inside -= 1;
            if meeting.inside == 0 {
                meeting.contributions.clear();
                meeting.generation += 1;
                self.changed.notify_all();
            }
        }
        while state.meetings.get(&key).is_some_and(|meeting| meeting.generation == generation) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        result
    }

    /// Leaves values for another device.
    pub(crate) fn send(&self, channel: i64, device: usize, target: usize, value: Vec<Vec<u8>>) {
        let mut state = self.lock();
        state.sent.entry((channel, device, target)).or_default().push_back(value);
        // Should it wait for something else, it will say so again.
        if state.activities[target] != Activity::Ended {
            state.activities[target] = Activity::Runs;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for values of another device.
    pub(crate) fn receive(&self, channel: i64, source: usize, device: usize) -> Result<Vec<Vec<u8>>, String> {
        let key = (channel, source, device);
        let is_sent = |state: &State| state.sent.get(&key).is_some_and(|values| !values.is_empty());
        let mut state = self.lock();
        if !is_sent(&state) {
            let waits = format!("a value of device {source} on channel {channel}");
            state = self.wait(state, device, &waits, is_sent)?;
        }
        state.sent.get_mut(&key).and_then(VecDeque::pop_front).ok_or_else(|| "the value is gone".to_string())
    }

    /// Waits until something holds, the execution fails or the time limit has passed.
    fn wait<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        device: usize,
        what: &str,
        holds: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'s, State>, String> {
        let end = Instant::now().checked_add(self.time_limit);
        loop {
            if holds(&state) {
                state.activities[device] = Activity::Runs;
                return Ok(state);
            }
            state.check()?;
            if state.activities[device] == Activity::Runs {
                state.activities[device] = Activity::Waits(what.to_string());
                state.look_for_deadlock();
                self.changed.notify_all();
                continue;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                let missing = state.running();
                let message =
                    format!("waited {} s for {what}; devices {missing:?} still run", self.time_limit.as_secs_f64());
                state.fail(device, message);
                self.changed.notify_all();
                continue;
            }
            state = match left {
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl State {
    fn check(&self) -> Result<(), String> {
        self.failure.as_ref().map_or(Ok(()), |failure| Err(failure.message.clone()))
    }

    fn fail(&mut self, device: usize, message: String) {
        self.failure.get_or_insert(DeviceFailure { device, message });
    }

    fn running(&self) -> Vec<usize> {
        let numbered = self.activities.iter().enumerate();
        numbered.filter(|(_, activity)| **activity == Activity::Runs).map(|(device, _)| device).collect()
    }

    /// When no device runs and some wait, these wait for ever.
    fn look_for_deadlock(&mut self) {
        if !self.running().is_empty() {
            return;
        }
        let waits = self.activities.iter().enumerate().filter_map(|(device, activity)| match activity {
            Activity::Waits(what) => Some((device, what)),
            Activity::Runs | Activity::Ended => None,
        });
        let waits: Vec<(usize, &String)> = waits.collect();
        let Some(&(device, _)) = waits.first() else { return };
        let list: Vec<String> = waits.iter().map(|(device, what)| format!("device {device} for {what}")).collect();
        let ended: Vec<usize> = (0..self.activities.len()).filter(|&d| self.activities[d] == Activity::Ended).collect();
        let ended = if ended.is_empty() { String::new() } else { format!("; devices {ended:?} have ended") };
        let message = format!("devices wait for ever: {}{ended}", list.join(", "));
        self.fail(device, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    fn nothing() -> Contribution {
        Contribution { operands: Vec::new(), descriptor: vec![1] }
    }

    /// Runs a function on each of two devices.
    fn on_two(
        time_limit: Duration,
        run: impl Fn(&Devices, usize) -> Result<(), String> + Sync,
    ) -> Option<DeviceFailure> {
        let devices = Devices::new(2, 1, time_limit);
        std::thread::scope(|scope| {
            for device in 0..2 {
                let (devices, run) = (&devices, &run);
                scope.spawn(move || {
                    if let Err(message) = run(devices, device) {
                        devices.fail(device, message);
                    }
                    devices.end(device);
                });
            }
        });
        devices.failure()
    }

    #[test]
    fn members_meet_again_and_again() {
        let failure = on_two(LONG, |devices, device| {
            for round in 0..200 {
                let mine = Contribution { operands: vec![100 * round + device], descriptor: vec![7] };
                devices.meet("r", device, &[1, 0], mine, |all| {
                    let seen: Vec<usize> = all.iter().map(|one| one.operands[0]).collect();
                    if seen == [100 * round + 1, 100 * round] { Ok(()) } else { Err(format!("{seen:?}")) }
                })?;
            }
            Ok(())
        });
        assert_eq!(failure, None);
    }

    #[test]
    fn who_does_not_come_is_noticed_at_once() {
        let failure = on_two(LONG, |devices, device| match device {
            0 => devices.meet("r", 0, &[0, 1], nothing(), |_| Ok(())),
            _ => Ok(()),
        });
        let failure = failure.unwrap();
        assert_eq!(failure.device, 0);
        assert!(
            failure.message.contains("device 0 for `r` with devices [0, 1]; devices [1] have ended"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_failure_ends_all_waiting() {
        let failure = on_two(LONG, |devices, device| match device {
            0 => devices.meet("r", 0, &[0, 1], nothing(), |_| Ok(())),
            _ => Err("broken".into()),
        });
        assert_eq!(failure, Some(DeviceFailure { device: 1, message: "broken".into() }));
    }

    #[test]
    fn a_device_that_computes_for_too_long_meets_the_time_limit() {
        let failure = on_two(Duration::from_millis(20), |devices, device| match device {
            0 => devices.meet("r", 0, &[0, 1], nothing(), |_| Ok(())),
            _ => {
                while devices.failure().is_none() {
                    std::thread::yield_now();
                }
                Ok(())
            }
        });
        assert!(failure.unwrap().message.contains("waited 0.02 s for `r` with devices [0, 1]; devices [1] still run"));
    }

    #[test]
    fn those_who_do_different_things_disagree() {
        let failure = on_two(LONG, |devices, device| {
            let mine = Contribution { operands: Vec::new(), descriptor: vec![device as i64] };
            devices.meet("r", device, &[0, 1], mine, |_| Ok(()))
        });
        assert!(failure.unwrap().message.contains("devices disagree"));
    }

    #[test]
    fn crossed_receives_are_a_deadlock_and_sent_values_arrive() {
        let failure = on_two(LONG, |devices, device| devices.receive(1, 1 - device, device).map(|_| ()));
        assert!(failure.unwrap().message.contains("devices wait for ever"));
        let failure = on_two(LONG, |devices, device| {
            devices.send(1, device, 1 - device, vec![vec![device as u8]]);
            let received = devices.receive(1, 1 - device, device)?;
            if received == [[1 - device as u8]] { Ok(()) } else { Err(format!("{received:?}")) }
        });
        assert_eq!(failure, None);
    }
}
