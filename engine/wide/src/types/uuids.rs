//! Uuids: byte-comparable forms, and conversion between time-uuids and times.
//!
//! A time-uuid has a 60-bit count of 100 ns since 15 October 1582, and 64 bits of clock sequence
//! and node (model 2.1).

/// Number of 100 ns intervals between 15 October 1582 and 1970.
const EPOCH: i64 = 0x01B2_1DD2_1381_4000;

fn halves(uuid: [u8; 16]) -> (u64, u64) {
    let all = u128::from_be_bytes(uuid);
    ((all >> 64) as u64, all as u64)
}

fn join(high: u64, low: u64) -> [u8; 16] {
    (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
}

/// Reorders `time_low time_mid time_hi` to `time_hi time_mid time_low`.
#[inline]
fn time_first(high: u64) -> u64 {
    high << 48 | (high & 0xFFFF_0000) << 16 | high >> 32
}

/// Reverses [`time_first`].
#[inline]
fn time_last(form: u64) -> u64 {
    form << 32 | (form >> 16) & 0xFFFF_0000 | form >> 48
}

/// Encodes to sort by time, then by the low bytes, signed; [`from_time_form`] reverses it.
#[inline]
pub(super) fn time_form(uuid: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(uuid);
    join(time_first(high), flip_tops(low))
}

#[inline]
pub(super) fn from_time_form(form: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(form);
    join(time_last(high), flip_tops(low))
}

/// Encodes to sort by version, then by time (version 1) or the high bytes, then by the low bytes,
/// unsigned.
#[inline]
pub(super) fn uuid_form(uuid: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(uuid);
    let version = high >> 12 & 0xF;
    if version == 1 {
        return join(time_first(high), low);
    }
    join(version << 60 | (high >> 16) << 12 | high & 0xFFF, low)
}

#[inline]
pub(super) fn from_uuid_form(form: [u8; 16]) -> [u8; 16] {
    let (high, low) = halves(form);
    let version = high >> 60;
    if version == 1 {
        return join(time_last(high), low);
    }
    join((high << 4 >> 16) << 16 | version << 12 | high & 0xFFF, low)
}

/// Encodes to sort by the signed halves; applying it twice reverses it.
#[inline]
pub(super) fn lexical_form(uuid: [u8; 16]) -> [u8; 16] {
    let top = 1u128 << 127 | 1 << 63;
    (u128::from_be_bytes(uuid) ^ top).to_be_bytes()
}

/// Returns the version.
pub fn version(uuid: [u8; 16]) -> u8 {
    uuid[6] >> 4
}

/// Returns a version 1 uuid of a time in microseconds since 1970, plus `ticks` (0 to 9) of 100 ns.
/// It uses 14 bits of `clock_sequence` and 48 bits of `node`. Times outside the years 1582 to 5236
/// wrap around.
pub fn time_uuid(micros: i64, ticks: u8, clock_sequence: u16, node: u64) -> [u8; 16] {
    let low =
        0x8000_0000_0000_0000 | u64::from(clock_sequence & 0x3FFF) << 48 | node & 0xFFFF_FFFF_FFFF;
    of_count(count(micros, ticks), low)
}

/// Returns the smallest time-uuid of a millisecond since 1970 (`minTimeuuid`).
pub fn min_time_uuid(millis: i64) -> [u8; 16] {
    of_count(count(millis.wrapping_mul(1000), 0), 0x8080_8080_8080_8080)
}

/// Returns the largest time-uuid of a millisecond since 1970 (`maxTimeuuid`).
pub fn max_time_uuid(millis: i64) -> [u8; 16] {
    of_count(count(millis.wrapping_mul(1000), 0).wrapping_add(9999), 0x7F7F_7F7F_7F7F_7F7F)
}

/// Returns the time of a version 1 uuid in microseconds since 1970; `None` for other versions.
pub fn micros_of(uuid: [u8; 16]) -> Option<i64> {
    if version(uuid) != 1 {
        return None;
    }
    let count = time_first(halves(uuid).0) & 0x0FFF_FFFF_FFFF_FFFF;
    Some((count as i64 - EPOCH).div_euclid(10))
}

fn count(micros: i64, ticks: u8) -> i64 {
    micros.wrapping_mul(10).wrapping_add(i64::from(ticks)).wrapping_add(EPOCH)
}

fn of_count(count: i64, low: u64) -> [u8; 16] {
    join(time_last(count as u64 & 0x0FFF_FFFF_FFFF_FFFF | 1 << 60), low)
}

/// Top bits of all eight bytes.
const TOPS: u64 = 0x8080_8080_8080_8080;

/// Flips the sign bits of the eight low bytes, so that they sort as signed bytes; applying it twice
/// reverses it.
pub(super) fn flip_tops(low: u64) -> u64 {
    low ^ TOPS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> [u8; 16] {
        text.parse::<uuid::Uuid>().unwrap().into_bytes()
    }

    #[test]
    fn the_forms_of_the_specification() {
        let random = uuid_form(of("cc520882-9507-44fb-8fc9-b349ecdee658"));
        assert_eq!(super::super::hex::hex(&random), "4cc52088295074fb8fc9b349ecdee658");
        let timed = uuid_form(of("2a92d750-d8dc-11e6-a2de-cf8ecd4cf053"));
        assert_eq!(super::super::hex::hex(&timed), "11e6d8dc2a92d750a2decf8ecd4cf053");
    }

    #[test]
    fn a_time_uuid_contains_its_time() {
        let made = time_uuid(1_234_567_890_123_456, 7, 0x1234, 0xABCD);
        assert_eq!(version(made), 1);
        assert_eq!(micros_of(made), Some(1_234_567_890_123_456));
        let (min, max) = (min_time_uuid(1_234_567_890_123), max_time_uuid(1_234_567_890_123));
        assert!(time_form(min) <= time_form(made) && time_form(made) <= time_form(max));
        assert!(time_form(max) < time_form(min_time_uuid(1_234_567_890_124)));
        assert_eq!(micros_of(of("cc520882-9507-44fb-8fc9-b349ecdee658")), None);
        assert_eq!(
            uuid::Uuid::from_bytes(min_time_uuid(0)).to_string(),
            "13814000-1dd2-11b2-8080-808080808080"
        );
    }

    proptest! {
        #[test]
        fn forms_can_be_undone(uuid in any::<[u8; 16]>()) {
            prop_assert_eq!(from_time_form(time_form(uuid)), uuid);
            prop_assert_eq!(from_uuid_form(uuid_form(uuid)), uuid);
            prop_assert_eq!(lexical_form(lexical_form(uuid)), uuid);
        }
    }
}
