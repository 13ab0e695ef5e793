//! Bytes in a form that sorts like them and tells where it ends: a zero is written as 00 FF, a run of n zeros as 00 FE.. (n − 1 times) FF,
//! and 00 ends the whole; zeros at the very end are 00 FE.. (n times) with nothing after them.
//!
//! What follows in a key is never FE or FF, so the end is where a zero, and the FEs behind it, meet another byte.

/// Appends the escaped form.
pub fn put_escaped(mut bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 1);
    while let Some(at) = bytes.iter().position(|&b| b == 0) {
        let zeros = bytes[at..].iter().take_while(|&&b| b == 0).count();
        let last = at + zeros == bytes.len();
        out.extend_from_slice(&bytes[..=at]);
        out.resize(out.len() + zeros - 1, 0xFE);
        out.push(if last { 0xFE } else { 0xFF });
        if last {
            return;
        }
        bytes = &bytes[at + zeros..];
    }
    out.extend_from_slice(bytes);
    out.push(0);
}

/// Length of the escaped form at the start of `bytes`; `None` when it doesn't end.
#[inline]
pub fn escaped_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&b| b == 0)? + 1;
        while bytes.get(at) == Some(&0xFE) {
            at += 1;
        }
        if bytes.get(at) != Some(&0xFF) {
            return Some(at);
        }
        at += 1;
    }
}

/// Appends what an escaped form (the whole of `bytes`) stands for. False when it isn't one.
pub fn unescape(mut bytes: &[u8], out: &mut Vec<u8>) -> bool {
    loop {
        let Some(at) = bytes.iter().position(|&b| b == 0) else { return false };
        out.extend_from_slice(&bytes[..at]);
        let more = bytes[at + 1..].iter().take_while(|&&b| b == 0xFE).count();
        out.resize(out.len() + more, 0);
        match bytes.get(at + 1 + more) {
            None => return true,
            Some(0xFF) => out.push(0),
            Some(_) => return false,
        }
        bytes = &bytes[at + 2 + more..];
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
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(0xFE), Just(0xFF), any::<u8>()], 0..9)
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
