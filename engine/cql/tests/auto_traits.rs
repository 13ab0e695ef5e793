//! Public types can be sent to and shared by threads. A field that takes this away fails to compile here.

use firn_cql::*;

const fn shared<T: Send + Sync + 'static>() {}
const fn sent<T: Send + 'static>() {}
const fn error<T: std::error::Error + Send + Sync + 'static>() {}

const _: () = {
    shared::<Session>();
    shared::<Prepared>();
    shared::<RunOptions>();
    shared::<Rows>();
    shared::<OwnedRow>();
    shared::<Value>();
    shared::<VarInt>();
    shared::<StatementLog>();
    shared::<ResultBudget>();
    sent::<PagedRows>();
    sent::<Typed<(i32,)>>();
    error::<Error>();
    error::<SyntaxError>();
};

#[test]
fn a_varint_is_its_bytes_and_its_digits() {
    for n in [0_i128, 1, -1, 127, 128, -128, -129, i128::MAX, i128::MIN] {
        let v = VarInt::from(n);
        assert_eq!(v.to_string(), n.to_string());
        assert_eq!(v.to_string().parse::<VarInt>().unwrap(), v);
        assert_eq!(VarInt::from_signed_bytes_be(&v.to_signed_bytes_be()), v);
        assert_eq!(i128::try_from(&v), Ok(n));
        assert_eq!(i64::try_from(&v).ok(), i64::try_from(n).ok());
        assert_eq!(u64::try_from(&v).ok(), u64::try_from(n).ok());
    }
    assert_eq!(VarInt::from_signed_bytes_be(&[]), VarInt::default());
    for bad in ["", "-", "+-1", "1_0", "0x1", " 1", "1e3"] {
        assert!(bad.parse::<VarInt>().is_err(), "{bad}");
    }
}
