//! The derive of `firn_cql::FromRow`; what it takes is documented there.
//!
//! Invariant: what it writes calls public methods of `firn_cql::Row` only, so whatever it does can
//! be written by hand.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, LitStr, Result, parse_macro_input};

/// Writes `FromRow` for a struct with named fields; see there.
#[proc_macro_derive(FromRow, attributes(firn))]
pub fn from_row(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn implementation(input: &DeriveInput) -> Result<TokenStream> {
    let named = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(named) => named,
            _ => {
                return Err(Error::new_spanned(
                    &input.ident,
                    "FromRow is derived by the names of fields, and this struct has none; a tuple is read by position as it is",
                ));
            }
        },
        Data::Enum(_) | Data::Union(_) => {
            return Err(Error::new_spanned(&input.ident, "FromRow is derived for structs only"));
        }
    };
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "FromRow is not derived for structs with parameters: a row is read into values that it owns, of types that are known",
        ));
    }
    if let Some(attr) = input.attrs.iter().find(|a| a.path().is_ident("firn")) {
        return Err(Error::new_spanned(
            attr,
            "a struct has no options of `firn`, its fields have: rename, default, skip",
        ));
    }
    let fields = named.named.iter().map(field).collect::<Result<Vec<_>>>()?;
    let row =
        if fields.iter().any(|f| f.reads) { format_ident!("row") } else { format_ident!("_row") };
    let (name, fields) = (&input.ident, fields.iter().map(|f| &f.code));
    Ok(quote! {
        impl ::firn_cql::FromRow for #name {
            fn from_row(#row: ::firn_cql::Row<'_>) -> ::firn_cql::Result<Self> {
                ::core::result::Result::Ok(#name { #(#fields),* })
            }
        }
    })
}

/// How a field is made.
struct Made {
    code: TokenStream,
    /// Whether it reads the row.
    reads: bool,
}

fn field(field: &Field) -> Result<Made> {
    let options = Options::read(&field.attrs)?;
    let (name, of) = (&field.ident, &field.ty);
    let column = match (options.rename, name) {
        (Some(column), _) => column,
        (None, Some(name)) => LitStr::new(&name.unraw().to_string(), name.span()),
        (None, None) => return Err(Error::new_spanned(field, "a field without a name")),
    };
    let code = match options.otherwise {
        Otherwise::Fail => quote!(#name: row.get::<#of>(#column)?),
        Otherwise::Default => quote!(#name: row.find::<#of>(#column)?.unwrap_or_default()),
        Otherwise::Skip => quote!(#name: ::core::default::Default::default()),
    };
    Ok(Made { code, reads: options.otherwise != Otherwise::Skip })
}

/// Handling of a field without a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Fail,
    Default,
    /// It is not read at all.
    Skip,
}

struct Options {
    rename: Option<LitStr>,
    otherwise: Otherwise,
}

impl Options {
    fn read(attrs: &[Attribute]) -> Result<Options> {
        let mut out = Options { rename: None, otherwise: Otherwise::Fail };
        for attr in attrs.iter().filter(|a| a.path().is_ident("firn")) {
            attr.parse_nested_meta(|meta| {
                let fresh = out.otherwise == Otherwise::Fail;
                if meta.path.is_ident("rename")
                    && out.rename.is_none()
                    && out.otherwise != Otherwise::Skip
                {
                    out.rename = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("default") && fresh {
                    out.otherwise = Otherwise::Default;
                } else if meta.path.is_ident("skip") && fresh && out.rename.is_none() {
                    out.otherwise = Otherwise::Skip;
                } else if ["rename", "default", "skip"]
                    .iter()
                    .any(|known| meta.path.is_ident(known))
                {
                    return Err(
                        meta.error("this is said already, or does not go with what is said")
                    );
                } else {
                    return Err(meta.error(
                        "not an option of a field: there are rename = \"column\", default, skip",
                    ));
                }
                Ok(())
            })?;
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    use super::implementation;

    fn refused(input: &syn::DeriveInput) -> String {
        implementation(input).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_struct_with_named_fields_is_refused_in_words() {
        let parameters = "FromRow is not derived for structs with parameters: a row is read into values that it owns, of types that are known";
        assert_eq!(
            refused(&parse_quote!(
                struct A<T> {
                    a: T,
                }
            )),
            parameters
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A<'a> {
                    a: &'a str,
                }
            )),
            parameters
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A<const N: usize> {
                    a: [u8; N],
                }
            )),
            parameters
        );
        let nameless = "FromRow is derived by the names of fields, and this struct has none; a tuple is read by position as it is";
        assert_eq!(
            refused(&parse_quote!(
                struct A(i32);
            )),
            nameless
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A;
            )),
            nameless
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    B,
                }
            )),
            "FromRow is derived for structs only"
        );
        assert_eq!(
            refused(&parse_quote!(union A { a: i32 })),
            "FromRow is derived for structs only"
        );
        assert!(
            refused(&parse_quote!(
                #[firn(rename = "x")]
                struct A {
                    a: i32,
                }
            ))
            .starts_with("a struct has no options")
        );
    }

    #[test]
    fn options_that_are_none_or_do_not_go_together_are_refused() {
        let unknown = "not an option of a field: there are rename = \"column\", default, skip";
        assert_eq!(
            refused(&parse_quote!(
                struct A {
                    #[firn(named = "x")]
                    a: i32,
                }
            )),
            unknown
        );
        let again = "this is said already, or does not go with what is said";
        assert_eq!(
            refused(&parse_quote!(
                struct A {
                    #[firn(rename = "x", rename = "y")]
                    a: i32,
                }
            )),
            again
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A {
                    #[firn(skip, default)]
                    a: i32,
                }
            )),
            again
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A {
                    #[firn(skip)]
                    #[firn(rename = "x")]
                    a: i32,
                }
            )),
            again
        );
        assert_eq!(
            refused(&parse_quote!(
                struct A {
                    #[firn(rename = "x", skip)]
                    a: i32,
                }
            )),
            again
        );
        assert!(
            implementation(&parse_quote!(
                struct A {
                    #[firn(rename = 7)]
                    a: i32,
                }
            ))
            .is_err()
        );
        assert!(
            implementation(&parse_quote!(
                struct A {
                    #[firn]
                    a: i32,
                }
            ))
            .is_err()
        );
        assert!(
            implementation(&parse_quote!(
                struct A {
                    #[firn(default, rename = "x")]
                    a: i32,
                    #[serde(skip)]
                    b: i32,
                }
            ))
            .is_ok()
        );
    }
}
