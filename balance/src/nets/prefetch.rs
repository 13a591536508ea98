//! A hint to the processor. The one place of this crate with `unsafe`.

/// Asks for the cache line of an element; does nothing outside the slice.
#[inline]
#[allow(unsafe_code, reason = "prefetch has no safe wrapper")]
pub(crate) fn read<T>(slice: &[T], index: usize) {
    let Some(element) = slice.get(index) else {
        return;
    };
    let element: *const T = element;
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of x86-64, and a prefetch reads nothing that the program sees; the address is valid.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(element.cast()) }
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: PRFM changes no register, memory or flag; the address is valid.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) element, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = element;
}
