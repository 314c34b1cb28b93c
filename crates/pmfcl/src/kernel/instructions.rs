//! Which vector instructions the kernels use.
//!
//! | set | registers | tile of sums |
//! | --- | --- | --- |
//! | `avx512` | 32 of 8 numbers | 8 × 24 |
//! | `avx2` | 16 of 4 | 6 × 8 |
//! | `neon` | 32 of 2 | 6 × 8 |
//! | `scalar` | | 6 × 8 |
//!
//! The best set of the processor is taken. The environment variable `PMFCL_INSTRUCTIONS` (`avx512`, `avx2` or `scalar`), read once,
//! asks for a lesser one, to measure and to test it.

use std::sync::OnceLock;

use pulp::{Simd, WithSimd};

/// A set of vector instructions that this processor has.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "aarch64")]
    Neon(pulp::aarch64::Neon),
    Scalar,
}

impl Instructions {
    /// The best set of this processor that is not better than the one named; without a name, the best.
    #[cfg(target_arch = "x86_64")]
    fn up_to(name: Option<&str>) -> Self {
        let wide = || pulp::x86::V4::try_new().map(Self::Avx512);
        let middle = || pulp::x86::V3::try_new().map(Self::Avx2);
        let found = match name {
            Some("scalar") => None,
            Some("avx2") => middle(),
            _ => wide().or_else(middle),
        };
        found.unwrap_or(Self::Scalar)
    }

    #[cfg(target_arch = "aarch64")]
    fn up_to(name: Option<&str>) -> Self {
        let found = match name {
            Some("scalar") => None,
            _ => pulp::aarch64::Neon::try_new().map(Self::Neon),
        };
        found.unwrap_or(Self::Scalar)
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn up_to(_: Option<&str>) -> Self {
        Self::Scalar
    }

    /// The set in use.
    #[inline]
    pub(super) fn current() -> Self {
        static CHOSEN: OnceLock<Instructions> = OnceLock::new();
        #[cfg(test)]
        if let Some(set) = tests::FORCED.get() {
            return set;
        }
        *CHOSEN.get_or_init(|| Self::up_to(std::env::var("PMFCL_INSTRUCTIONS").ok().as_deref()))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
            Self::Scalar => "scalar",
        }
    }

    /// Panels that a tile of sums has side by side.
    pub(super) fn group(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => 3,
            _ => 1,
        }
    }
}

/// The name of the vector instructions that the kernels use on this processor: `avx512`, `avx2`, `neon` or `scalar`.
///
/// Results have the same bits on any number of threads; between instruction sets last bits may differ.
#[must_use]
pub fn instruction_set() -> &'static str {
    Instructions::current().name()
}

/// Runs `work` with the instructions in use.
#[inline]
pub(super) fn dispatch<W: WithSimd>(work: W) -> W::Output {
    match Instructions::current() {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512(simd) => Simd::vectorize(simd, work),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2(simd) => Simd::vectorize(simd, work),
        #[cfg(target_arch = "aarch64")]
        Instructions::Neon(simd) => Simd::vectorize(simd, work),
        Instructions::Scalar => Simd::vectorize(pulp::Scalar, work),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// The set that a test asks for on this thread.
        pub(in super::super) static FORCED: Cell<Option<Instructions>> = const { Cell::new(None) };
    }

    /// Calls `work` with each set that this processor has, as its name.
    pub(in super::super) fn each_set(mut work: impl FnMut(&str)) {
        for name in ["avx512", "avx2", "neon", "scalar"] {
            let set = Instructions::up_to(Some(name));
            if set.name() == name {
                FORCED.set(Some(set));
                work(name);
                FORCED.set(None);
            }
        }
    }

    #[test]
    fn every_processor_has_at_least_the_scalar_set() {
        let mut seen = Vec::new();
        each_set(|name| {
            assert_eq!(Instructions::current().name(), name);
            seen.push(name.to_owned());
        });
        assert_eq!(seen.last().map(String::as_str), Some("scalar"));
    }
}
