//! A WiredTiger cursor over raw keys and values: the calls of every read and write.
//!
//! A thin wrapper of WT_CURSOR, opened with `raw`, so that keys are packed bytes on both sides. WiredTiger keeps the pointer
//! to a key that is set until the operation that uses it; here one call always sets and uses it. The codes are WiredTiger's;
//! 0 is success.
//!
//! Changes of parts of a value are converted to the form that WiredTiger logs instead of the whole value. The server's splices
//! refer to the old value; WiredTiger applies its entries one after another. From the end to the start the two mean the
//! same, as long as the splices are in order and do not overlap. Other splices, and those that save too little, are refused:
//! the whole value is then written.

#![expect(unsafe_code, reason = "calls into WiredTiger through its function pointers")]

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{self, NonNull};

use fathom_engine::Splice;
use fathom_engine_wt_sys as sys;

/// Calls a method of one of WiredTiger's structures; a method that this version leaves out counts as not supported.
macro_rules! call {
    ($handle:expr, $method:ident $(, $argument:expr)*) => {{
        let handle = $handle;
        match (*handle).$method {
            Some(method) => method(handle $(, $argument)*),
            None => 95,
        }
    }};
}

pub(crate) use call;

/// An open cursor; it lives until [`CursorHandle::close`] or the end of its session. It holds no position between operations
/// unless a method says so.
#[derive(Debug)]
pub(crate) struct CursorHandle {
    raw: NonNull<sys::WT_CURSOR>,
    /// Whether WiredTiger may hold a position for it.
    positioned: bool,
    /// The transaction in which a look-up left it on its key; 0 if none did.
    held_in: u64,
}

// SAFETY: a cursor belongs to its session and moves with it from thread to thread; `core` keeps it to one thread at a time.
unsafe impl Send for CursorHandle {}

fn item(bytes: &[u8]) -> sys::WT_ITEM {
    // SAFETY: pointers and numbers, for which zero is valid.
    let mut item: sys::WT_ITEM = unsafe { std::mem::zeroed() };
    item.data = bytes.as_ptr().cast();
    item.size = bytes.len();
    item
}

impl CursorHandle {
    /// # Safety
    /// The cursor must be open, and no other code may use or close it.
    pub(crate) unsafe fn new(raw: NonNull<sys::WT_CURSOR>) -> Self {
        CursorHandle { raw, positioned: false, held_in: 0 }
    }

    pub(crate) fn raw(&mut self) -> *mut sys::WT_CURSOR {
        self.raw.as_ptr()
    }

    /// Sets the key.
    ///
    /// # Safety
    /// The bytes must live until the operation that uses the key.
    #[inline]
    unsafe fn set_key(&mut self, key: &[u8]) {
        self.held_in = 0;
        let item = item(key);
        // SAFETY: the cursor is open and raw, so it takes one pointer to an item; the item is read during the call, its
        // bytes until the operation, as the caller promises.
        unsafe {
            if let Some(set_key) = self.raw.as_ref().set_key {
                set_key(self.raw.as_ptr(), &raw const item);
            }
        }
    }

    /// Sets the value; the same rule as for [`CursorHandle::set_key`].
    ///
    /// # Safety
    /// The bytes must live until the operation that uses the value.
    #[inline]
    unsafe fn set_value(&mut self, value: &[u8]) {
        let item = item(value);
        // SAFETY: as for `set_key`; the value's format is one item.
        unsafe {
            if let Some(set_value) = self.raw.as_ref().set_value {
                set_value(self.raw.as_ptr(), &raw const item);
            }
        }
    }

    /// Moves to a key and stays there; WT_NOTFOUND leaves no position.
    #[inline]
    pub(crate) fn search(&mut self, key: &[u8]) -> c_int {
        // SAFETY: the key lives through both calls, and the cursor is open.
        let code = unsafe {
            self.set_key(key);
            call!(self.raw.as_ptr(), search)
        };
        self.positioned = code == 0;
        code
    }

    /// Leaves it on the key that was just found until the transaction of this number ends, which resets it.
    #[inline]
    pub(crate) fn hold(&mut self, transaction: u64) {
        if self.positioned {
            self.held_in = transaction;
        }
    }

    /// Whether it was left on this key in the open transaction, which has this number.
    #[inline]
    fn is_held_on(&self, key: &[u8], transaction: u64) -> bool {
        if self.held_in != transaction || transaction == 0 {
            return false;
        }
        let mut found = item(&[]);
        // SAFETY: the cursor is open, raw and on a key; the item is WiredTiger's until the next operation on the cursor.
        unsafe {
            call!(self.raw.as_ptr(), get_key, &raw mut found) == 0
                && found.size == key.len()
                && std::slice::from_raw_parts(found.data.cast::<u8>(), found.size) == key
        }
    }

    /// Moves to a key or to a neighbour; returns how that key compares with the requested one.
    pub(crate) fn search_near(&mut self, key: &[u8]) -> Result<Ordering, c_int> {
        let mut exact = 0;
        // SAFETY: as for `search`; the number is written during the call.
        let code = unsafe {
            self.set_key(key);
            call!(self.raw.as_ptr(), search_near, &mut exact)
        };
        self.positioned = code == 0;
        if code == 0 { Ok(exact.cmp(&0)) } else { Err(code) }
    }

    /// Moves to the next key, or to the first one from no position.
    pub(crate) fn next(&mut self) -> c_int {
        self.held_in = 0;
        // SAFETY: the cursor is open.
        let code = unsafe { call!(self.raw.as_ptr(), next) };
        self.positioned = code == 0;
        code
    }

    /// Moves to the previous key, or to the last one from no position.
    pub(crate) fn previous(&mut self) -> c_int {
        self.held_in = 0;
        // SAFETY: the cursor is open.
        let code = unsafe { call!(self.raw.as_ptr(), prev) };
        self.positioned = code == 0;
        code
    }

    /// Writes a key with WiredTiger's insert, which leaves no position.
    #[inline]
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) -> c_int {
        // A duplicate leaves a position.
        self.positioned = true;
        // SAFETY: key and value live through the calls, and the cursor is open.
        unsafe {
            self.set_key(key);
            self.set_value(value);
            call!(self.raw.as_ptr(), insert)
        }
    }

    /// Changes parts of a key's value; the entries are applied in their order. Only in a transaction, which has this
    /// number: if a look-up in it left the cursor on the key, the key is not searched for again.
    pub(crate) fn modify(&mut self, key: &[u8], parts: &[(usize, usize, &[u8])], transaction: u64) -> c_int {
        const MOST: usize = MAX_PARTS;
        // SAFETY: items and numbers, for which zero is valid.
        let mut entries: [sys::WT_MODIFY; MOST] = unsafe { std::mem::zeroed() };
        for (entry, (offset, remove, data)) in entries.iter_mut().zip(parts) {
            entry.data = item(data);
            entry.offset = *offset;
            entry.size = *remove;
        }
        let count = parts.len().min(MOST);
        let is_there = self.is_held_on(key, transaction);
        self.positioned = true;
        // SAFETY: the key, the entries and their data live through the calls; no more than `count` entries are read.
        unsafe {
            if !is_there {
                self.set_key(key);
            }
            call!(self.raw.as_ptr(), modify, entries.as_mut_ptr(), count as c_int)
        }
    }

    /// Removes a key; WT_NOTFOUND if it does not exist and the cursor was opened with `overwrite=false`.
    pub(crate) fn remove(&mut self, key: &[u8]) -> c_int {
        self.positioned = true;
        // SAFETY: as for `search`.
        unsafe {
            self.set_key(key);
            call!(self.raw.as_ptr(), remove)
        }
    }

    /// Sets the key for a range; it must live until the range is used.
    ///
    /// # Safety
    /// The bytes must live until the operation that uses the key.
    pub(crate) unsafe fn aim(&mut self, key: &[u8]) {
        self.positioned = true;
        // SAFETY: the caller promises the same.
        unsafe { self.set_key(key) };
    }

    /// Appends the key under the cursor, which must be on one.
    pub(crate) fn append_key(&self, out: &mut Vec<u8>) -> c_int {
        let mut item = item(&[]);
        // SAFETY: the cursor is open and raw: it fills one item.
        let code = unsafe { call!(self.raw.as_ptr(), get_key, &raw mut item) };
        // SAFETY: on success the item is WiredTiger's until the next operation on the cursor.
        unsafe { append(code, &item, out) }
    }

    /// Appends the value under the cursor, which must be on a key.
    #[inline]
    pub(crate) fn append_value(&self, out: &mut Vec<u8>) -> c_int {
        let mut item = item(&[]);
        // SAFETY: as for `append_key`.
        let code = unsafe { call!(self.raw.as_ptr(), get_value, &raw mut item) };
        // SAFETY: as for `append_key`.
        unsafe { append(code, &item, out) }
    }

    /// Releases the position, if there is one.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.held_in = 0;
        if self.positioned {
            self.positioned = false;
            // SAFETY: the cursor is open. What it returns is the error of the operation before, which was reported.
            unsafe { call!(self.raw.as_ptr(), reset) };
        }
    }

    /// Closes the cursor and returns WiredTiger's code.
    pub(crate) fn close(self) -> c_int {
        // SAFETY: the cursor is open, and `self` is dropped with it.
        unsafe { call!(self.raw.as_ptr(), close) }
    }

    /// The next entry of a metadata cursor (not raw): its key and value.
    pub(crate) fn next_metadata(&mut self) -> Result<(String, String), c_int> {
        let code = self.next();
        if code != 0 {
            return Err(code);
        }
        let (mut key, mut value): (*const c_char, *const c_char) = (ptr::null(), ptr::null());
        // SAFETY: the cursor is open and on an entry; its formats are one string each.
        let code = unsafe {
            match call!(self.raw.as_ptr(), get_key, &raw mut key) {
                0 => call!(self.raw.as_ptr(), get_value, &raw mut value),
                code => code,
            }
        };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: both are strings of this entry, and are copied before the cursor moves.
        Ok(unsafe { (text(key).into_owned(), text(value).into_owned()) })
    }

    /// The value of a key of a metadata cursor (not raw).
    pub(crate) fn metadata(&mut self, key: &CStr) -> Result<String, c_int> {
        let mut value: *const c_char = ptr::null();
        // SAFETY: the cursor is open, its formats are one string each, and the key lives through the calls.
        let code = unsafe {
            if let Some(set_key) = self.raw.as_ref().set_key {
                set_key(self.raw.as_ptr(), key.as_ptr());
            }
            match call!(self.raw.as_ptr(), search) {
                0 => call!(self.raw.as_ptr(), get_value, &raw mut value),
                code => code,
            }
        };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: it is a string of this entry, and is copied before the cursor moves.
        Ok(unsafe { text(value).into_owned() })
    }

    /// The next entry of a statistics cursor (not raw): its description and value.
    pub(crate) fn next_statistic(&mut self) -> Result<(Cow<'_, str>, u64), c_int> {
        match self.next() {
            0 => self.statistic(),
            code => Err(code),
        }
    }

    /// One entry of a statistics cursor (not raw), by its number.
    pub(crate) fn search_statistic(&mut self, number: u32) -> Result<u64, c_int> {
        // SAFETY: the cursor is open, and its key's format is one int.
        let code = unsafe {
            if let Some(set_key) = self.raw.as_ref().set_key {
                set_key(self.raw.as_ptr(), number as c_int);
            }
            call!(self.raw.as_ptr(), search)
        };
        if code != 0 { Err(code) } else { self.statistic().map(|(_, value)| value) }
    }

    fn statistic(&self) -> Result<(Cow<'_, str>, u64), c_int> {
        let (mut description, mut printable, mut value): (*const c_char, *const c_char, u64) =
            (ptr::null(), ptr::null(), 0);
        // SAFETY: the cursor is open and on an entry; its value's format is two strings and a 64-bit number.
        let code = unsafe {
            call!(self.raw.as_ptr(), get_value, &raw mut description, &raw mut printable, &raw mut value)
        };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: it is a string of this entry; the cursor, which is borrowed as long as the text is, cannot move meanwhile.
        Ok(unsafe { (text(description), value) })
    }
}

/// Appends an item that WiredTiger filled.
///
/// # Safety
/// If the code is 0, the item must point to as many bytes as it says, or be empty.
#[inline]
unsafe fn append(code: c_int, item: &sys::WT_ITEM, out: &mut Vec<u8>) -> c_int {
    if code == 0 && item.size > 0 {
        // SAFETY: the caller promises it, and the bytes do not change during the copy.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(item.data.cast(), item.size) });
    }
    code
}

/// A string of WiredTiger's, empty if there is none.
///
/// # Safety
/// It must be null or end with a zero byte, and stay as it is as long as the result lives: until the next operation on the
/// cursor that gave it.
unsafe fn text<'a>(string: *const c_char) -> Cow<'a, str> {
    if string.is_null() {
        return Cow::Borrowed("");
    }
    // SAFETY: the caller promises it.
    unsafe { CStr::from_ptr(string) }.to_string_lossy()
}

/// The most parts that mongod logs; with more, the whole value is written.
pub(crate) const MAX_PARTS: usize = 16;

/// Offset, bytes to remove, and what takes their place.
pub(crate) type BytePatch<'s> = (usize, usize, &'s [u8]);

/// Writes splices to the buffer as parts in WiredTiger's order and returns their number. `None` if the whole value is to be written.
///
/// The limits are mongod's: replacements of the same length (its in-place damages) up to half of the value, other changes up
/// to a tenth of it.
pub(crate) fn parts<'s>(
    splices: &'s [Splice],
    value_bytes: usize,
    buffer: &mut [BytePatch<'s>; MAX_PARTS],
) -> Option<usize> {
    if splices.is_empty() || splices.len() > MAX_PARTS {
        return None;
    }
    let removed: usize = splices.iter().map(|splice| splice.remove).sum();
    let added: usize = splices.iter().map(|splice| splice.data.len()).sum();
    let in_place = splices.iter().all(|splice| splice.remove == splice.data.len());
    let worth = if in_place { added * 2 <= value_bytes } else { (added + removed) * 10 <= value_bytes };
    let old_bytes = (value_bytes + removed).checked_sub(added)?;
    let mut reached = 0;
    for splice in splices {
        if splice.offset < reached {
            return None;
        }
        reached = splice.offset.checked_add(splice.remove)?;
    }
    if !worth || reached > old_bytes {
        return None;
    }
    for (part, splice) in buffer.iter_mut().zip(splices.iter().rev()) {
        *part = (splice.offset, splice.remove, &splice.data);
    }
    Some(splices.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn splice(offset: usize, remove: usize, data: &[u8]) -> Splice {
        Splice { offset, remove, data: data.to_vec() }
    }

    fn count(splices: &[Splice], value_bytes: usize) -> Option<usize> {
        parts(splices, value_bytes, &mut [(0, 0, &[][..]); MAX_PARTS])
    }

    #[test]
    fn parts_come_from_the_end_to_the_start() {
        let splices = [splice(3, 1, b"x"), splice(10, 0, b"yy")];
        let mut buffer = [(0, 0, &[][..]); MAX_PARTS];
        assert_eq!(parts(&splices, 100, &mut buffer), Some(2));
        assert_eq!(buffer[..2], [(10, 0, &b"yy"[..]), (3, 1, &b"x"[..])]);
    }

    #[test]
    fn what_is_not_worth_it_or_not_in_order_is_written_whole() {
        assert_eq!(count(&[], 100), None);
        assert_eq!(count(&[splice(0, 60, &[7; 60])], 100), None, "most of the value");
        assert_eq!(count(&[splice(0, 40, &[7; 40])], 100), Some(1), "in place");
        assert_eq!(count(&[splice(0, 20, &[7; 21])], 100), None, "not in place, more than a tenth");
        assert_eq!(count(&[splice(5, 2, b"ab"), splice(6, 1, b"c")], 100), None, "overlapping");
        assert_eq!(count(&[splice(99, 2, b"ab")], 100), None, "beyond the end");
        assert_eq!(count(&vec![splice(0, 0, b""); 17], 1000), None, "too many");
        assert_eq!(count(&[splice(usize::MAX, 1, b"a")], 100), None);
    }
}
