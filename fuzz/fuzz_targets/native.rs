//! Bytes of the native protocol: split into frames independently of the read sizes, requests and
//! responses parsed without a panic. A parsed request is written back unchanged; segments return
//! their payload.
#![no_main]

use firn_server::internals::wire::{
    BodyCompression, FrameHeader, FrameStream, SegmentParser, WireReply, WireRequest, put_segments,
};
use libfuzzer_sys::fuzz_target;

const MOST: usize = 1 << 16;

/// Returns the requests in these bytes, which arrive in pieces of this size.
fn requests(bytes: &[u8], segments: Option<bool>, piece: usize) -> Vec<String> {
    let mut stream = FrameStream::new(MOST);
    if let Some(lz4) = segments {
        stream.begin_segments(lz4);
    }
    let mut said = vec![];
    for part in bytes.chunks(piece) {
        stream.incoming().extend_from_slice(part);
        loop {
            match stream.take_frame() {
                Ok(Some((header, body))) => said.push(request(header, body)),
                Ok(None) => break,
                Err((_, error)) => {
                    said.push(error.to_string());
                    return said;
                }
            }
        }
    }
    said
}

fn request(header: FrameHeader, body: &[u8]) -> String {
    if header.is_response() {
        return format!("{:?}", WireReply::read(&header, body));
    }
    let (Ok(version), Ok(opcode)) = (header.version(), header.opcode()) else {
        return "refused".into();
    };
    for compression in [BodyCompression::Lz4, BodyCompression::Snappy] {
        if let Ok(unpacked) = compression.unpack(body, MOST) {
            assert!(unpacked.len() <= MOST);
            assert_eq!(
                compression.unpack(&compression.pack(&unpacked), MOST).as_ref(),
                Ok(&unpacked)
            );
        }
    }
    let read = WireRequest::read(opcode, version, header.has_payload(), body);
    if let Ok(request) = &read {
        let mut written = vec![];
        request.put(&mut written, version);
        let again = WireRequest::read(opcode, version, false, &written);
        assert_eq!(format!("{again:?}"), format!("{read:?}"));
    }
    format!("{read:?}")
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let segments = [None, Some(false), Some(true)][usize::from(first % 3)];
    let whole = requests(bytes, segments, 1 << 14);
    assert_eq!(requests(bytes, segments, usize::from(first / 3) + 1), whole);

    // As envelopes of arbitrary lengths.
    let mut ends: Vec<usize> =
        bytes.iter().map(|b| usize::from(*b) * 7 % (bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    for lz4 in [false, true] {
        let (mut framed, mut back, mut at) = (vec![], vec![], 0);
        put_segments(&mut framed, bytes, &ends, lz4);
        while at < framed.len() {
            let parser = SegmentParser { lz4 };
            at += parser.read(&framed[at..], &mut back).expect("as written").expect("whole");
        }
        assert_eq!(back, bytes);
    }
});
