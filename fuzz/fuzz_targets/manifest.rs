//! A manifest of arbitrary bytes, the same with valid checksums, or assembled messages of fields;
//! the parsed state is written and read again.
#![no_main]

use std::path::Path;

use arbitrary::Arbitrary;
use firn_fuzz::{current_of, manifest_of, seal_manifest};
use firn_kv::Env;
use firn_kv::MemEnv;
use firn_kv::internals::manifest::{CURRENT, Manifest, manifest_name, read};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Raw(&'a [u8]),
    Sealed(&'a [u8]),
    Frames(Vec<&'a [u8]>),
    Messages(Vec<Vec<Field<'a>>>),
}

#[derive(Arbitrary, Debug)]
enum Content<'a> {
    Number(u64),
    Small(u8),
    Bytes(&'a [u8]),
    Message(Vec<Field<'a>>),
    /// Valid options.
    Options,
}

#[derive(Arbitrary, Debug)]
struct Field<'a> {
    tag: u8,
    content: Content<'a>,
}

fn varint(out: &mut Vec<u8>, v: u64) {
    firn_kv::internals::util::coding::put_varint(out, v);
}

fn encode(fields: &[Field<'_>]) -> Vec<u8> {
    let mut out = vec![];
    for f in fields {
        let mut b = vec![];
        match &f.content {
            Content::Number(n) => varint(&mut b, *n),
            Content::Small(n) => varint(&mut b, *n as u64),
            Content::Bytes(x) => b.extend_from_slice(x),
            Content::Message(m) => b = encode(m),
            Content::Options => b = options(),
        }
        varint(&mut out, f.tag as u64);
        varint(&mut out, b.len() as u64);
        out.extend(b);
    }
    out
}

fn options() -> Vec<u8> {
    let mut out = vec![];
    let mut put = |tag: u8, b: &[u8]| out.extend([&[tag, b.len() as u8], b].concat());
    for (tag, b) in [
        (2, &[1][..]),
        (4, &[1]),
        (6, &[0x80, 0x20]),
        (8, &[0x80, 0x80, 4]),
        (10, &[0x80, 0x80, 4]),
        (14, &[0]),
    ] {
        put(tag, b);
    }
    let parameter = [&[4, 9, 2, 5][..], b"ratio", &[4, 1, 4]].concat();
    let parameter = [&[4, parameter.len() as u8 - 2][..], &parameter[2..]].concat();
    put(12, &[&[2, 12][..], b"lazy-leveled", &parameter].concat());
    out
}

fuzz_target!(|input: Input<'_>| {
    let (env, dir) = (MemEnv::new(0), Path::new("/db"));
    let number = 7;
    let bytes = match &input {
        Input::Raw(b) => b.to_vec(),
        Input::Sealed(b) => {
            let mut b = b.to_vec();
            seal_manifest(&mut b, number);
            b
        }
        Input::Frames(f) => manifest_of(number, &f.iter().map(|p| p.to_vec()).collect::<Vec<_>>()),
        Input::Messages(m) => manifest_of(number, &m.iter().map(|p| encode(p)).collect::<Vec<_>>()),
    };
    let set = |name: &str, bytes: &[u8]| env.write_file(&dir.join(name), bytes);
    if env.create_dir_all(dir).is_err() || set(&manifest_name(number), &bytes).is_err() {
        return;
    }
    let _ = Manifest::load(&env, dir);
    let _ =
        set(CURRENT, current_of(&format!("firn format 1\n{}\n", manifest_name(number))).as_bytes());
    let log = read(&env, dir, number);
    let loaded = Manifest::load(&env, dir);
    if let Ok(log) = &log {
        assert!(log.end <= bytes.len() as u64);
        assert_eq!(
            format!("{:?}", log.replay().ok()),
            format!("{:?}", loaded.as_ref().ok().and_then(|l| Some(&l.as_ref()?.0)))
        );
    }
    if let Ok(Some((state, _))) = loaded {
        assert!(state.check().is_ok());
        assert!(Manifest::create(&env, dir, 8, &state).is_ok());
        let again = Manifest::load(&env, dir)
            .map(|l| l.map(|l| format!("{:?}", l.0)))
            .map_err(|e| e.to_string());
        assert_eq!(again, Ok(Some(format!("{state:?}"))));
    }
});
