//! Plans of transforms, which are costly and kept for the life of the process.

use super::{
    FftKind,
    axis::{BLOCK, Signals},
    lanes::{Lane, LanePlan, RealLanePlan},
    real::{RealPlan, SHORTEST_ROW},
    short_rows::ShortRowPlan,
};
use crate::runtime::tiles::square_of_eight;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftDirection, FftPlanner};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// Every plan that was asked for.
pub(super) struct Plans<T: Lane> {
    complex: FftPlanner<T>,
    real: RealFftPlanner<T>,
    lanes: HashMap<usize, Option<Arc<LanePlan<T>>>>,
    real_lanes: HashMap<usize, Option<Arc<RealLanePlan<T>>>>,
    rows: HashMap<(usize, bool), Arc<RealPlan<T>>>,
    short_rows: HashMap<(FftKind, usize), Option<Arc<ShortRowPlan<T>>>>,
}

impl<T: Lane> Plans<T> {
    fn new() -> Self {
        Self {
            complex: FftPlanner::new(),
            real: RealFftPlanner::new(),
            lanes: HashMap::new(),
            real_lanes: HashMap::new(),
            rows: HashMap::new(),
            short_rows: HashMap::new(),
        }
    }
}

/// A float type with its plans.
pub(super) trait Planned: Lane {
    fn with_plans<R>(call: impl FnOnce(&mut Plans<Self>) -> R) -> R;

    fn complex(length: usize, direction: FftDirection) -> Arc<dyn Fft<Self>> {
        Self::with_plans(|plans| plans.complex.plan_fft(length, direction))
    }

    /// The plan for other rows.
    fn from_real(length: usize) -> Arc<dyn RealToComplex<Self>> {
        Self::with_plans(|plans| plans.real.plan_fft_forward(length))
    }

    /// Its inverse.
    fn to_real(length: usize) -> Arc<dyn ComplexToReal<Self>> {
        Self::with_plans(|plans| plans.real.plan_fft_inverse(length))
    }

    /// The plan for rows of real numbers of an even length that is not short.
    fn real_rows(length: usize, direction: FftDirection) -> Option<Arc<RealPlan<Self>>> {
        (length.is_multiple_of(2) && length > SHORTEST_ROW).then(|| {
            let pairs = Self::complex(length / 2, direction);
            let key = (length, direction == FftDirection::Inverse);
            Self::with_plans(|plans| plans.rows.entry(key).or_insert_with(|| Arc::new(RealPlan::new(pairs))).clone())
        })
    }

    /// The plan for rows that are short.
    fn short_rows(kind: FftKind, length: usize) -> Option<Arc<ShortRowPlan<Self>>> {
        let new = || ShortRowPlan::new(kind, length).map(Arc::new);
        Self::with_plans(|plans| plans.short_rows.entry((kind, length)).or_insert_with(new).clone())
    }

    /// The plan that takes several signals at a time, where it is faster than taking them one by one.
    fn lanes(signals: Signals) -> Option<Arc<LanePlan<Self>>> {
        let length = signals.length;
        let plan = |plans: &mut Plans<Self>| {
            plans.lanes.entry(length).or_insert_with(|| LanePlan::new(length).map(Arc::new)).clone()
        };
        pays::<Self>(signals).then(|| Self::with_plans(plan)).flatten()
    }

    /// The plan for rows of real numbers whose length is odd, so that they are no complex ones of half the length.
    fn odd_lanes(count: usize, length: usize) -> Option<Arc<LanePlan<Self>>> {
        (length % 2 == 1).then(|| Self::lanes(Signals::rows(count, length))).flatten()
    }

    /// As [`Planned::lanes`], for real signals.
    fn real_lanes(signals: Signals) -> Option<Arc<RealLanePlan<Self>>> {
        let length = signals.length;
        let plan = |plans: &mut Plans<Self>| {
            plans.real_lanes.entry(length).or_insert_with(|| RealLanePlan::new(length).map(Arc::new)).clone()
        };
        pays::<Self>(signals).then(|| Self::with_plans(plan)).flatten()
    }
}

/// Rows up to which as many as there are lanes stay in a cache near the core.
const LONGEST_ROW: usize = 1 << 13;

/// Whether to take signals side by side: when they fill half of the lanes. The rustfft crate has vector code of its own for
/// rows whose lengths are powers of 2 and 3, times one other prime factor up to 11, and would copy columns together.
fn pays<T: Lane>(signals: Signals) -> bool {
    2 * signals.count >= T::LANES && (signals.stride > 1 || rows_pay::<T>(signals))
}

fn rows_pay<T: Lane>(Signals { count, length, .. }: Signals) -> bool {
    let has_squares = T::LANES == BLOCK && square_of_eight().is_some();
    let rest = [2, 3].iter().fold(length.max(1), |rest, &prime| {
        std::iter::successors(Some(rest), |rest| (rest % prime == 0).then_some(rest / prime)).last().unwrap_or(rest)
    });
    // Of lanes that nothing stands in, at most a fifth.
    let fills_lanes = 4 * count.next_multiple_of(T::LANES) <= 5 * count;
    let is_fast_side_by_side = has_squares && rest > 11 && length <= LONGEST_ROW && fills_lanes;
    is_fast_side_by_side || [13, 17].iter().any(|prime| length.is_multiple_of(*prime))
}

macro_rules! planned {
    ($float:ty) => {
        impl Planned for $float {
            fn with_plans<R>(call: impl FnOnce(&mut Plans<Self>) -> R) -> R {
                static PLANS: OnceLock<Mutex<Plans<$float>>> = OnceLock::new();
                let plans = PLANS.get_or_init(|| Mutex::new(Plans::new()));
                call(&mut plans.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    };
}

planned!(f32);
planned!(f64);
