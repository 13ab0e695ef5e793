//! Operations in the encoding of a WAL record's payload: parsed operations are written and read
//! back unchanged.
#![no_main]

use firn_kv::internals::base::ops::{OpReader, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let ops: Vec<_> = OpReader::new(input).collect();
    let mut again = vec![];
    ops.iter().flatten().for_each(|&(tree, op)| encode(&mut again, tree, op));
    let sound = ops.iter().take_while(|o| o.is_some()).count();
    assert!(sound + 1 >= ops.len() && again.len() <= input.len());
    assert_eq!(OpReader::new(&again).collect::<Vec<_>>(), ops[..sound]);
});
