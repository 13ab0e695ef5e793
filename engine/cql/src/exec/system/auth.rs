//! `system_auth`: roles and their permissions.

use std::collections::BTreeSet;

use super::view::SystemView;
use crate::exec::source::SystemRows;

pub(super) fn fill(view: &SystemView<'_>, rows: &mut SystemRows<'_>) {
    let catalog = &view.catalog;
    match rows.table() {
        "roles" => catalog.roles().for_each(|role| {
            rows.add(&[
                ("role", &role.name),
                ("can_login", &role.can_login),
                ("is_superuser", &role.is_superuser),
                ("member_of", &role.member_of),
                ("salted_hash", &role.salted_hash),
            ]);
        }),
        "role_members" => catalog.roles().for_each(|role| {
            role.member_of
                .iter()
                .for_each(|granted| rows.add(&[("role", granted), ("member", &role.name)]));
        }),
        "role_permissions" => catalog.roles().for_each(|role| {
            for (resource, all) in &role.permissions {
                let words: BTreeSet<&str> = all.iter().map(|p| p.word()).collect();
                rows.add(&[
                    ("role", &role.name),
                    ("resource", &resource.path()),
                    ("permissions", &words),
                ]);
            }
        }),
        "resource_role_permissons_index" => catalog.roles().for_each(|role| {
            role.permissions
                .keys()
                .for_each(|of| rows.add(&[("resource", &of.path()), ("role", &role.name)]));
        }),
        _ => {}
    }
}
