//! The derive of `firn_typed::Key`.
//!
//! ```text
//! #[derive(Key)]
//! enum Event {
//!     Start,                       // tag 0
//!     #[firn(tag = 5)]
//!     Read { page: u64 },          // tag 5
//!     Stop(String, u32),           // tag 6
//! }
//! ```
//!
//! A struct is encoded as the tuple of its fields, in the order of their declaration. A tuple of its
//! first fields is a `KeyPrefix`. An enum is encoded as one byte, the tag of the variant, and the
//! fields of the variant. A tag is that of the variant before plus 1, beginning at 0, unless the
//! attribute `#[firn(tag = N)]` sets it. Keys sort by tag, then by fields; that is the order of
//! `#[derive(Ord)]` if tags ascend.
//!
//! The tags and the order of fields are part of the stored format. Add variants at the end.
//!
//! Invariant: the code that it writes calls public items of `firn_typed` only, so it can be written
//! by hand.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, Ident, LitInt, Result, Variant, parse_macro_input};

/// Implements `Key`, `AsKey` and, for structs, `KeyPrefix`.
#[proc_macro_derive(Key, attributes(firn))]
pub fn key(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input).unwrap_or_else(Error::into_compile_error).into()
}

fn implementation(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &input.generics,
            "Key is not derived for types with parameters",
        ));
    }
    let name = &input.ident;
    let (write, read, prefixes) = match &input.data {
        Data::Struct(data) => {
            let parts = Parts::new(&data.fields);
            let (pattern, write) = (parts.pattern(&quote!(#name)), parts.write());
            let read = parts.read(&quote!(#name));
            let write = quote!(let #pattern = self; #write);
            (write, quote!(::core::result::Result::Ok(#read)), parts.prefixes(name))
        }
        Data::Enum(data) => {
            let (write, read) = variants(name, &data.variants.iter().collect::<Vec<_>>())?;
            (write, read, TokenStream::new())
        }
        Data::Union(_) => return Err(Error::new_spanned(name, "Key is not derived for unions")),
    };
    Ok(quote! {
        #[automatically_derived]
        impl ::firn_typed::AsKey<#name> for #name {
            fn write_part(&self, out: &mut ::firn_typed::Buffer) {
                let _ = &out;
                #write
            }
        }

        #[automatically_derived]
        impl ::firn_typed::Key for #name {
            type View<'a> = #name;

            fn view_part<'a>(
                from: &mut ::firn_typed::KeyReader<'a>,
            ) -> ::core::result::Result<#name, ::firn_typed::DecodeError> {
                let _ = &from;
                #read
            }

            fn from_view(view: #name) -> #name {
                view
            }
        }

        #prefixes
    })
}

/// Returns the code that writes and reads an enum.
fn variants(name: &Ident, variants: &[&Variant]) -> Result<(TokenStream, TokenStream)> {
    if variants.is_empty() {
        return Err(Error::new_spanned(name, "an enum without variants has no keys"));
    }
    let (mut writes, mut reads, mut used) = (vec![], vec![], BTreeSet::new());
    let mut next = Some(0u8);
    for variant in variants {
        let given = tag(variant)?;
        if given.is_none()
            && let Some((_, value)) = &variant.discriminant
        {
            return Err(Error::new_spanned(
                value,
                "the number is not stored; give the stored one with #[firn(tag = N)]",
            ));
        }
        let Some(tag) = given.or(next) else {
            return Err(Error::new_spanned(variant, "a tag is at most 255"));
        };
        if !used.insert(tag) {
            return Err(Error::new_spanned(variant, format!("two variants have the tag {tag}")));
        }
        next = tag.checked_add(1);
        let (parts, ident) = (Parts::new(&variant.fields), &variant.ident);
        let path = quote!(#name::#ident);
        let (pattern, write, read) = (parts.pattern(&path), parts.write(), parts.read(&path));
        writes.push(quote!(#pattern => { out.push(#tag); #write }));
        reads.push(quote!(#tag => ::core::result::Result::Ok(#read),));
    }
    let shown = name.to_string();
    let write = quote!(match self { #(#writes)* });
    let read = quote! {
        let at = from.offset();
        match from.tag(#shown)? {
            #(#reads)*
            _ => ::core::result::Result::Err(::firn_typed::DecodeError::new(
                #shown, at, "no variant has this tag",
            )),
        }
    };
    Ok((write, read))
}

/// Returns the tag that the attribute of a variant sets.
fn tag(variant: &Variant) -> Result<Option<u8>> {
    let mut tag = None;
    for attribute in variant.attrs.iter().filter(|a| a.path().is_ident("firn")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("tag") {
                return Err(meta.error("not an option of a variant: there is tag = N"));
            }
            if tag.is_some() {
                return Err(meta.error("the tag is set already"));
            }
            tag = Some(meta.value()?.parse::<LitInt>()?.base10_parse()?);
            Ok(())
        })?;
    }
    Ok(tag)
}

/// Fields of a struct or a variant.
struct Parts<'a> {
    fields: &'a Fields,
    /// Names of local variables.
    locals: Vec<Ident>,
}

impl Parts<'_> {
    fn new(fields: &Fields) -> Parts<'_> {
        Parts { fields, locals: (0..fields.len()).map(|i| format_ident!("part{i}")).collect() }
    }

    /// Returns a pattern that binds each field to its local variable.
    fn pattern(&self, path: &TokenStream) -> TokenStream {
        let locals = &self.locals;
        match self.fields {
            Fields::Named(named) => {
                let names = named.named.iter().map(|f| &f.ident);
                quote!(#path { #(#names: #locals),* })
            }
            Fields::Unnamed(_) => quote!(#path(#(#locals),*)),
            Fields::Unit => quote!(#path),
        }
    }

    fn write(&self) -> TokenStream {
        let types = self.fields.iter().map(|f| &f.ty);
        let locals = &self.locals;
        quote!(#(::firn_typed::AsKey::<#types>::write_part(#locals, out);)*)
    }

    /// Returns an expression that reads the fields in order.
    fn read(&self, path: &TokenStream) -> TokenStream {
        let parts = self
            .fields
            .iter()
            .map(|f| &f.ty)
            .map(|of| quote!(<#of as ::firn_typed::Key>::decode_part(from)?));
        match self.fields {
            Fields::Named(named) => {
                let names = named.named.iter().map(|f| &f.ident);
                quote!(#path { #(#names: #parts),* })
            }
            Fields::Unnamed(_) => quote!(#path(#(#parts),*)),
            Fields::Unit => quote!(#path),
        }
    }

    /// Returns an implementation of `KeyPrefix` for each tuple of first fields, without the last
    /// field, of up to six.
    fn prefixes(&self, name: &Ident) -> TokenStream {
        let types: Vec<_> = self.fields.iter().map(|f| &f.ty).collect();
        let one = |len: usize| {
            let types = &types[..len];
            let params: Vec<_> = (0..len).map(|i| format_ident!("Q{i}")).collect();
            let index = (0..len).map(syn::Index::from);
            quote! {
                #[automatically_derived]
                impl<#(#params: ::firn_typed::AsKey<#types>),*> ::firn_typed::KeyPrefix<#name>
                    for (#(#params,)*)
                {
                    fn write_prefix(&self, out: &mut ::firn_typed::Buffer) {
                        #(::firn_typed::AsKey::<#types>::write_part(&self.#index, out);)*
                    }
                }
            }
        };
        (1..types.len().min(7)).map(one).collect()
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
    fn types_without_an_order_of_their_own_are_refused() {
        assert_eq!(
            refused(&parse_quote!(
                struct A<T>(T);
            )),
            "Key is not derived for types with parameters"
        );
        assert_eq!(
            refused(&parse_quote!(
                union A {
                    a: u8,
                }
            )),
            "Key is not derived for unions"
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {}
            )),
            "an enum without variants has no keys"
        );
    }

    #[test]
    fn wrong_tags_are_refused() {
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    B = 7,
                }
            )),
            "the number is not stored; give the stored one with #[firn(tag = N)]"
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    B,
                    #[firn(tag = 0)]
                    C,
                }
            )),
            "two variants have the tag 0"
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    #[firn(tag = 255)]
                    B,
                    C,
                }
            )),
            "a tag is at most 255"
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    #[firn(name = "b")]
                    B,
                }
            )),
            "not an option of a variant: there is tag = N"
        );
        assert_eq!(
            refused(&parse_quote!(
                enum A {
                    #[firn(tag = 1, tag = 2)]
                    B,
                }
            )),
            "the tag is set already"
        );
    }
}
