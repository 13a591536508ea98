//! Large blocks in 2 MiB pages.
//!
//! The tables that a query reads (prefixes, names, encoded records) are tens of megabytes read at random. In 4 KiB
//! pages each read misses the TLB, and inside a virtual machine the walk that follows costs more than the read
//! itself. So blocks of some size are aligned to large pages, and the kernel is asked for them.
#![allow(unsafe_code)] // an allocator

use std::alloc::{GlobalAlloc, Layout, System};

/// The size of a large page on x86-64 and, with 4 KiB base pages, on aarch64.
const PAGE: usize = 2 << 20;
/// Blocks from this size on are given whole large pages; less than one each is lost.
const LARGE: usize = PAGE / 2;

/// The system's allocator, with large pages for large blocks.
#[derive(Debug)]
pub struct LargePages;

/// The layout that a block really has.
fn real(layout: Layout) -> Layout {
    if layout.size() < LARGE {
        return layout;
    }
    let whole = layout.size().checked_next_multiple_of(PAGE);
    whole.and_then(|size| Layout::from_size_align(size, layout.align().max(PAGE)).ok()).unwrap_or(layout)
}

/// Asks for large pages; where the kernel has none to give, nothing changes.
fn advise(block: *mut u8, size: usize) {
    // SAFETY: the range is a block that was just allocated, and the advice never changes its contents.
    let _ = unsafe { libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE) };
}

// SAFETY: every call goes on to the system's allocator; alloc and dealloc of a block use the same layout, since
// `real` depends on nothing but the layout given.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let real = real(layout);
        // SAFETY: the layout is valid and not empty, as the caller promises of its own.
        let block = unsafe { System.alloc(real) };
        if layout.size() >= LARGE && !block.is_null() {
            advise(block, real.size());
        }
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as the caller promises.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as above. Zeroing by hand, because the system would do so before the advice, in small pages.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` with this layout.
        unsafe { System.dealloc(block, real(layout)) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            // SAFETY: as the caller promises; both layouts are the system's own.
            return unsafe { System.realloc(block, layout, size) };
        }
        if layout.size() >= LARGE
            && Layout::from_size_align(size, layout.align()).is_ok_and(|wanted| real(wanted) == real(layout))
        {
            return block;
        }
        // SAFETY: the caller promises that `size` with this alignment is a valid layout; the new block is distinct
        // from the old one and both hold the smaller of the two sizes.
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            let new = self.alloc(wanted);
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_contents_over_every_size() {
        let mut bytes: Vec<u8> = Vec::new();
        let sizes = [1, 4096, LARGE - 1, LARGE, LARGE + 1, 5 * PAGE, LARGE - 1, 100, 3 * PAGE, 0];
        for (round, size) in sizes.into_iter().enumerate() {
            let kept = bytes.len().min(size);
            let before: Vec<u8> = bytes.iter().copied().take(kept).collect();
            // SAFETY: the blocks are allocated, moved and freed with their own layouts below.
            unsafe {
                let layout = |size: usize| Layout::from_size_align(size.max(1), 8).expect("a layout");
                let block = LargePages.alloc_zeroed(layout(size));
                assert!(!block.is_null());
                assert!(size < LARGE || (block as usize).is_multiple_of(PAGE));
                assert!(std::slice::from_raw_parts(block, size).iter().all(|&byte| byte == 0));
                let block = LargePages.realloc(block, layout(size), size.max(1) + PAGE);
                let grown = std::slice::from_raw_parts(block, size.min(1));
                assert!(grown.iter().all(|&byte| byte == 0));
                LargePages.dealloc(block, layout(size.max(1) + PAGE));
            }
            bytes.resize(size, round as u8);
            assert_eq!(bytes.get(..kept), Some(before.as_slice()));
        }
    }
}
