//! Escaped bytes, which sort like the original and mark their end (OSS50; model 2.1). A run of n
//! zeros is written as 00 FE.. (n − 1 times) FF, and 00 ends the whole. Zeros at the very end are
//! 00 FE.. (n times) with nothing after them.
//!
//! The next byte in a key is never FE or FF, so the form ends where a zero and the following FEs
//! meet another byte. An inverted form (of a reversed type) has every bit flipped; then `MASK` is
//! FF, and the next byte is never 00 or 01.

/// Appends the escaped form.
#[inline]
pub fn put_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(0, rest) {
        let zeros = rest[at..].iter().take_while(|&&b| b == 0).count();
        let last = at + zeros == rest.len();
        out.extend_from_slice(&rest[..=at]);
        out.resize(out.len() + zeros - 1, 0xFE);
        out.push(if last { 0xFE } else { 0xFF });
        if last {
            return;
        }
        rest = &rest[at + zeros..];
    }
    out.extend_from_slice(rest);
    out.push(0);
}

/// Returns the length of the escaped form at the start of `bytes`; `None` if it has no end.
#[inline]
pub fn escaped_len(bytes: &[u8]) -> Option<usize> {
    masked_len::<0>(bytes)
}

/// Like [`escaped_len`], for a form whose bytes are XORed with `MASK`.
#[inline]
pub(super) fn masked_len<const MASK: u8>(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(MASK, bytes.get(at..)?)? + 1;
        while bytes.get(at) == Some(&(0xFE ^ MASK)) {
            at += 1;
        }
        if bytes.get(at) != Some(&(0xFF ^ MASK)) {
            return Some(at);
        }
        at += 1;
    }
}

/// Decodes the escaped form in `bytes` and appends the result. Returns false if it is malformed.
#[inline]
pub fn unescape(bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = bytes;
    loop {
        let Some(at) = memchr::memchr(0, rest) else { return false };
        out.extend_from_slice(&rest[..at]);
        let more = rest[at + 1..].iter().take_while(|&&b| b == 0xFE).count();
        out.resize(out.len() + more, 0);
        match rest.get(at + 1 + more) {
            None => return true,
            // A zero after it would belong to the same run.
            Some(0xFF) if rest.get(at + 2 + more).is_some_and(|&b| b != 0) => out.push(0),
            Some(_) => return false,
        }
        rest = &rest[at + 2 + more..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        put_escaped(bytes, &mut out);
        out
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()],
            0..9,
        )
    }

    #[test]
    fn the_forms_of_the_specification() {
        assert_eq!(escaped(b""), [0]);
        assert_eq!(escaped(b"a"), [0x61, 0]);
        assert_eq!(escaped(b"a\0"), [0x61, 0, 0xFE]);
        assert_eq!(escaped(b"a\0\0"), [0x61, 0, 0xFE, 0xFE]);
        assert_eq!(escaped(b"a\0b"), [0x61, 0, 0xFF, 0x62, 0]);
        assert_eq!(escaped(b"a\0\0b"), [0x61, 0, 0xFE, 0xFF, 0x62, 0]);
    }

    proptest! {
        #[test]
        fn escaping_keeps_order_and_can_be_undone(a in bytes(), b in bytes(), next in 0x20u8..0x62) {
            let (mut ea, mut eb) = (escaped(&a), escaped(&b));
            let mut back = vec![];
            prop_assert!(unescape(&ea, &mut back));
            prop_assert_eq!(&back, &a);
            let len = ea.len();
            ea.push(next);
            eb.push(0x40);
            prop_assert_eq!(escaped_len(&ea), Some(len));
            let inverted: Vec<u8> = ea[..len].iter().map(|b| !b).chain([next]).collect();
            prop_assert_eq!(masked_len::<0xFF>(&inverted), Some(len));
            if a != b {
                prop_assert_eq!(ea.cmp(&eb), a.cmp(&b));
            }
        }

        #[test]
        fn any_bytes_are_judged(b in bytes()) {
            let _ = escaped_len(&b);
            let mut out = vec![];
            if unescape(&b, &mut out) {
                prop_assert_eq!(escaped(&out), b);
            }
        }
    }
}
