//! Threads of a block that wait for each other: each is a coroutine, which goes on when all have come to a barrier, or those of
//! its warp to an exchange of values.

use std::cell::{Cell, RefCell};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::KernelFunction;
use super::matrices::{self, WarpOperation};
use super::order::ThreadOrder;
use super::pending::WarpGroupWait;
use super::warp_groups::{WARP_GROUP, WarpGroupOperation};

/// Threads that exchange values.
pub(super) const WARP: usize = 32;

/// What code of a kernel may need, and the functions that it calls.
const STACK_BYTES: usize = 128 << 10;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// All threads, at the barrier of this number.
    Barrier(u32),
    /// The threads of the warp; then it wants the value of another lane, as far away in the bits of its number.
    Exchange { value: u32, distance: u32 },
    /// The threads of the warp, with which it does something.
    Warp(WarpOperation),
    /// The threads of four warps, with which it does something.
    WarpGroup(WarpGroupOperation),
    /// The same, until products that they have begun are there.
    Products(WarpGroupWait),
    /// That the phase of a barrier has ended.
    Phase { barrier: u64, is_odd: bool },
}

/// A thread's coroutine: it is given the value that it asked for.
type Fiber = Coroutine<u32, Wait, (), DefaultStack>;

thread_local! {
    /// Of the thread that runs.
    static YIELDER: Cell<*const Yielder<u32, Wait>> = const { Cell::new(ptr::null()) };
    /// Stacks that no thread runs on.
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// Where a thread is.
enum State {
    /// It goes on, with this value.
    Ready(u32),
    Waits(Wait),
    Ended,
}

/// Lets the running thread wait; gives the value that it waited for.
pub(super) fn wait(wait: Wait) -> u32 {
    let yielder = YIELDER.get();
    if yielder.is_null() {
        return 0;
    }
    // SAFETY: the yielder is that of the coroutine that runs, and lives as long as that does.
    let value = unsafe { (*yielder).suspend(wait) };
    // Others ran meanwhile.
    YIELDER.set(yielder);
    value
}

/// Runs the threads of a block in an order that changes with each barrier. `enter` is told which thread goes on, and how many
/// barriers it has passed.
///
/// # Safety
/// The kernel must be callable with the arguments by every thread.
///
/// # Errors
/// For threads that wait for what does not come.
pub(super) unsafe fn run(
    kernel: KernelFunction,
    arguments: *const u64,
    mut order: ThreadOrder,
    enter: &mut dyn FnMut(usize, u32),
) -> Result<(), String> {
    let threads = order.threads().len();
    let stacks = (0..threads).map(|_| {
        let kept = STACKS.with_borrow_mut(Vec::pop);
        kept.map_or_else(|| DefaultStack::new(STACK_BYTES), Ok).map_err(|error| format!("no stack: {error}"))
    });
    let stacks: Vec<DefaultStack> = stacks.collect::<Result<_, _>>()?;
    let mut fibers: Vec<Fiber> = stacks
        .into_iter()
        .map(|stack| {
            Coroutine::with_stack(stack, move |yielder: &Yielder<u32, Wait>, _| {
                YIELDER.set(yielder);
                // SAFETY: the caller's promise.
                unsafe { kernel(arguments) };
            })
        })
        .collect();
    let mut states: Vec<State> = (0..threads).map(|_| State::Ready(0)).collect();
    let (mut epoch, mut turn) = (0, 0);
    let ended = loop {
        for &thread in order.threads() {
            let State::Ready(value) = states[thread] else { continue };
            enter(thread, epoch);
            states[thread] = match fibers[thread].resume(value) {
                CoroutineResult::Yield(wait) => State::Waits(wait),
                CoroutineResult::Return(()) => State::Ended,
            };
        }
        if states.iter().all(|state| matches!(state, State::Ended)) {
            break Ok(());
        }
        let exchanged = states.chunks_mut(WARP).map(exchange).collect::<Result<Vec<bool>, String>>();
        let passed = states.iter_mut().map(pass_phase).collect::<Result<Vec<bool>, String>>();
        // Matrices are multiplied as late as may be, when all others wait, and by one group after another.
        let went_on = match (exchanged, passed) {
            (Ok(exchanged), Ok(passed)) if !exchanged.contains(&true) && !passed.contains(&true) => {
                let groups = threads.div_ceil(WARP_GROUP);
                turn += 1;
                (0..groups).try_fold(false, |done, number| {
                    let first = (turn + number) % groups * WARP_GROUP;
                    let end = (first + WARP_GROUP).min(threads);
                    if done { Ok(true) } else { multiply(first as u32, &mut states[first..end]) }
                })
            }
            (exchanged, passed) => exchanged.and(passed).map(|_| true),
        };
        match went_on {
            Err(fault) => break Err(fault),
            Ok(true) => continue,
            Ok(false) => {}
        }
        match pass_barrier(&mut states) {
            Err(fault) => break Err(fault),
            Ok(()) => {
                epoch += 1;
                order.change();
            }
        }
    };
    YIELDER.set(ptr::null());
    for mut fiber in fibers {
        if ended.is_err() && !fiber.done() {
            // SAFETY: the kernel's code holds nothing that must be dropped.
            unsafe { fiber.force_reset() };
            // One that has not begun gives its stack back with everything else.
            continue;
        }
        STACKS.with_borrow_mut(|stacks| stacks.push(fiber.into_stack()));
    }
    ended
}

/// Lets a warp do what its threads do together, once all of them have come.
fn exchange(warp: &mut [State]) -> Result<bool, String> {
    let wishes: Vec<Option<Wait>> = warp
        .iter()
        .map(|state| match state {
            State::Waits(wait @ (Wait::Exchange { .. } | Wait::Warp(_))) => Some(*wait),
            _ => None,
        })
        .collect();
    if wishes.iter().all(Option::is_none) {
        return Ok(false);
    }
    let Some(all) = wishes.into_iter().collect::<Option<Vec<Wait>>>() else {
        return Err("threads of a warp part before they exchange values".into());
    };
    let operations: Vec<WarpOperation> =
        all.iter().filter_map(|wait| if let Wait::Warp(operation) = wait { Some(*operation) } else { None }).collect();
    if !operations.is_empty() {
        matrices::run(&operations)?;
        warp.iter_mut().for_each(|state| *state = State::Ready(0));
        return Ok(true);
    }
    for (lane, state) in warp.iter_mut().enumerate() {
        let Wait::Exchange { distance, .. } = all[lane] else { continue };
        let Some(&Wait::Exchange { value, .. }) = all.get(lane ^ distance as usize) else {
            return Err(format!("lane {lane} wants a value of a lane that there is not"));
        };
        *state = State::Ready(value);
    }
    Ok(true)
}

/// Lets four warps, whose threads begin at one, do what these do together, once all of them have come.
fn multiply(first: u32, group: &mut [State]) -> Result<bool, String> {
    let mut operations = Vec::with_capacity(WARP_GROUP);
    let mut waits = Vec::with_capacity(WARP_GROUP);
    for state in group.iter() {
        match state {
            State::Waits(Wait::WarpGroup(operation)) => operations.push(*operation),
            State::Waits(Wait::Products(wait)) => waits.push(*wait),
            _ => return Ok(false),
        }
    }
    // SAFETY: the words are on the stacks of threads that wait, as many as the code generator makes.
    unsafe {
        match (operations.len(), waits.len()) {
            (WARP_GROUP, 0) => super::multiply_warp_group(&operations)?,
            (0, WARP_GROUP) => super::end_products(first, &waits)?,
            _ => return Ok(false),
        }
    }
    group.iter_mut().for_each(|state| *state = State::Ready(0));
    Ok(true)
}

/// Lets a thread go on that waits for the end of a phase, once that has come.
fn pass_phase(state: &mut State) -> Result<bool, String> {
    let State::Waits(Wait::Phase { barrier, is_odd }) = *state else { return Ok(false) };
    let has_ended = super::phase_ended(barrier, is_odd)?;
    if has_ended {
        *state = State::Ready(0);
    }
    Ok(has_ended)
}

/// Lets all threads pass the barrier that they wait at.
fn pass_barrier(states: &mut [State]) -> Result<(), String> {
    let mut barrier = None;
    for (thread, state) in states.iter().enumerate() {
        match state {
            State::Waits(Wait::Barrier(number)) if *barrier.get_or_insert(*number) == *number => {}
            State::Waits(Wait::Phase { .. }) => {
                return Err(format!("thread {thread} waits for bytes or arrivals that do not come"));
            }
            State::Ended => return Err(format!("thread {thread} has ended, others wait at a barrier")),
            _ => return Err(format!("thread {thread} waits elsewhere than others at their barrier")),
        }
    }
    states.iter_mut().for_each(|state| *state = State::Ready(0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::PHASES;

    thread_local! {
        static THREAD: Cell<usize> = const { Cell::new(0) };
    }

    /// Each thread sums its warp's numbers up, and waits for all others.
    unsafe extern "C" fn sums(results: *const u64) {
        let own = THREAD.get();
        let mut sum = own as u32;
        for distance in [1, 2, 4, 8, 16] {
            sum += wait(Wait::Exchange { value: sum, distance });
        }
        wait(Wait::Barrier(1));
        // SAFETY: the test passes a place for each thread.
        unsafe { *results.cast_mut().add(own) = u64::from(sum) };
    }

    unsafe extern "C" fn one_does_not_come(_: *const u64) {
        if THREAD.get() != 3 {
            wait(Wait::Barrier(1));
        }
    }

    unsafe extern "C" fn at_different_ones(_: *const u64) {
        wait(Wait::Barrier(THREAD.get() as u32 % 2));
    }

    unsafe extern "C" fn half_a_warp(_: *const u64) {
        if THREAD.get() < 16 {
            wait(Wait::Exchange { value: 0, distance: 1 });
        } else {
            wait(Wait::Barrier(1));
        }
    }

    /// One arrives, if its argument says so, and all others wait for it.
    unsafe extern "C" fn in_phases(arguments: *const u64) {
        // SAFETY: the test passes an argument.
        let arrives = THREAD.get() == 3 && unsafe { *arguments } == 1;
        match arrives {
            true => assert_eq!(PHASES.with_borrow_mut(|phases| phases.arrive(8, 0)), Ok(())),
            false => _ = wait(Wait::Phase { barrier: 8, is_odd: false }),
        }
    }

    fn run_all(kernel: KernelFunction, results: &mut [u64; 64]) -> Result<(), String> {
        // SAFETY: the kernels take a place for each thread.
        unsafe { run(kernel, results.as_mut_ptr(), ThreadOrder::new(64, 0), &mut |thread, _| THREAD.set(thread)) }
    }

    #[test]
    fn threads_wait_for_each_other() {
        let mut results = [0; 64];
        for _ in 0..3 {
            assert_eq!(run_all(sums, &mut results), Ok(()));
            assert_eq!(results[..32], [(0..32).sum(); 32]);
            assert_eq!(results[32..], [(32..64).sum(); 32]);
        }
    }

    #[test]
    fn who_waits_in_vain_is_found() {
        let fault = |kernel| run_all(kernel, &mut [0; 64]).unwrap_err();
        assert_eq!(fault(one_does_not_come), "thread 3 has ended, others wait at a barrier");
        assert_eq!(fault(at_different_ones), "thread 1 waits elsewhere than others at their barrier");
        assert_eq!(fault(half_a_warp), "threads of a warp part before they exchange values");
        let phases = |arrives: u64| {
            PHASES.with_borrow_mut(|phases| phases.init(8, 1));
            run_all(in_phases, &mut [arrives; 64])
        };
        assert_eq!(phases(1), Ok(()));
        assert_eq!(phases(0).unwrap_err(), "thread 0 waits for bytes or arrivals that do not come");
    }
}
