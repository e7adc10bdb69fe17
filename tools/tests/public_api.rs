//! The public interface of the crate `halo`, as a list that a change has to change too: `HALO_BLESS=1` rewrites
//! `public-api.txt`.
//!
//! The list follows the re-exports of `src/lib.rs` to the items they name, and gives each with its public fields, variants
//! and methods as the source has them, and the traits that it implements. Items that macros make are named only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::{Fields, ImplItem, Item, TraitItem, UseTree, Visibility};

const LIST: &str = "tests/public-api.txt";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Folder of the sources of a crate by the name that `use` has for it.
fn sources(name: &str) -> Option<PathBuf> {
    let folder = match name {
        "hlo" => "dialects/hlo/src",
        "exec" => "runtime/exec/src",
        "cuda" => "runtime/cuda/src",
        "lowering_llvm" => "lowering/llvm/src",
        "halo" => "src",
        _ => return None,
    };
    Some(root().join(folder))
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// The source of a node on one line.
fn text(node: &impl Spanned) -> String {
    node.span().source_text().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the sources of a crate say about each name.
#[derive(Default)]
struct Index {
    /// The item itself, with its public parts.
    items: BTreeMap<String, BTreeSet<String>>,
    /// Public methods.
    methods: BTreeMap<String, BTreeSet<String>>,
    traits: BTreeMap<String, BTreeSet<String>>,
}

impl Index {
    fn of(folder: &Path) -> Self {
        let mut index = Index::default();
        let mut paths = Vec::new();
        files(folder, &mut paths);
        for path in paths {
            let file = syn::parse_file(&fs::read_to_string(&path).expect("a file")).expect("Rust");
            file.items.iter().for_each(|item| index.add(item));
        }
        index
    }

    fn item(&mut self, name: &syn::Ident, line: String) {
        self.items.entry(name.to_string()).or_default().insert(line);
    }

    fn derives(&mut self, name: &syn::Ident, attributes: &[syn::Attribute]) {
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
            let list = text(&attribute.meta);
            let names = list.trim_start_matches("derive(").trim_end_matches(')').split(", ").map(str::to_string);
            self.traits.entry(name.to_string()).or_default().extend(names);
        }
    }

    fn add(&mut self, item: &Item) {
        match item {
            Item::Struct(item) if is_public(&item.vis) => {
                let fields: Vec<&syn::Field> = match &item.fields {
                    Fields::Named(fields) => fields.named.iter().filter(|field| is_public(&field.vis)).collect(),
                    Fields::Unnamed(fields) => fields.unnamed.iter().filter(|field| is_public(&field.vis)).collect(),
                    Fields::Unit => Vec::new(),
                };
                let fields: Vec<String> = fields
                    .into_iter()
                    .map(|field| match &field.ident {
                        Some(name) => format!("{name}: {}", text(&field.ty)),
                        None => text(&field.ty),
                    })
                    .collect();
                self.item(
                    &item.ident,
                    format!("struct {}{} {{ {} }}", item.ident, text(&item.generics), fields.join(", ")),
                );
                self.derives(&item.ident, &item.attrs);
            }
            Item::Enum(item) if is_public(&item.vis) => {
                let open = if item.attrs.iter().any(|attribute| attribute.path().is_ident("non_exhaustive")) {
                    ", .."
                } else {
                    ""
                };
                let variants: Vec<String> = item
                    .variants
                    .iter()
                    .map(|variant| match &variant.fields {
                        Fields::Named(fields) => {
                            let names: Vec<String> = fields
                                .named
                                .iter()
                                .filter_map(|field| field.ident.as_ref())
                                .map(ToString::to_string)
                                .collect();
                            format!("{} {{ {} }}", variant.ident, names.join(", "))
                        }
                        Fields::Unnamed(fields) => {
                            let types: Vec<String> = fields.unnamed.iter().map(|field| text(&field.ty)).collect();
                            format!("{}({})", variant.ident, types.join(", "))
                        }
                        Fields::Unit => variant.ident.to_string(),
                    })
                    .collect();
                self.item(
                    &item.ident,
                    format!("enum {}{} {{ {}{open} }}", item.ident, text(&item.generics), variants.join(", ")),
                );
                self.derives(&item.ident, &item.attrs);
            }
            Item::Trait(item) if is_public(&item.vis) => {
                self.item(&item.ident, format!("trait {}", item.ident));
                for part in &item.items {
                    if let TraitItem::Fn(function) = part {
                        self.methods.entry(item.ident.to_string()).or_default().insert(text(&function.sig));
                    }
                }
            }
            Item::Fn(item) if is_public(&item.vis) => self.item(&item.sig.ident, text(&item.sig)),
            Item::Type(item) if is_public(&item.vis) => {
                self.item(&item.ident, format!("type {} = {}", item.ident, text(&item.ty)))
            }
            Item::Const(item) if is_public(&item.vis) => {
                self.item(&item.ident, format!("const {}: {}", item.ident, text(&item.ty)))
            }
            Item::Impl(item) => {
                let syn::Type::Path(path) = &*item.self_ty else { return };
                let Some(name) = path.path.segments.last().map(|segment| segment.ident.to_string()) else { return };
                if let Some((_, of, _)) = &item.trait_ {
                    self.traits.entry(name).or_default().insert(text(of));
                    return;
                }
                for part in &item.items {
                    match part {
                        ImplItem::Fn(function) if is_public(&function.vis) => {
                            self.methods.entry(name.clone()).or_default().insert(text(&function.sig));
                        }
                        ImplItem::Const(constant) if is_public(&constant.vis) => {
                            let line = format!("const {}: {}", constant.ident, text(&constant.ty));
                            self.methods.entry(name.clone()).or_default().insert(line);
                        }
                        _ => {}
                    }
                }
            }
            Item::Mod(item) if item.ident != "tests" => {
                item.content.iter().flat_map(|(_, items)| items).for_each(|item| self.add(item));
            }
            _ => {}
        }
    }

    fn describe(&self, out: &mut String, place: &str, name: &str) {
        let _ = writeln!(out, "{place}{name}");
        for item in self.items.get(name).into_iter().flatten() {
            let _ = writeln!(out, "  {item}");
        }
        for method in self.methods.get(name).into_iter().flatten() {
            let _ = writeln!(out, "    {method}");
        }
        if let Some(traits) = self.traits.get(name) {
            let _ = writeln!(out, "    impl {}", traits.iter().cloned().collect::<Vec<_>>().join(", "));
        }
    }
}

/// The paths that a `use` names, with the names they get.
fn names(tree: &UseTree, path: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let longer = |name: &syn::Ident| path.iter().cloned().chain([name.to_string()]).collect::<Vec<_>>();
    match tree {
        UseTree::Path(inner) => names(&inner.tree, &longer(&inner.ident), found),
        UseTree::Name(name) => found.push((longer(&name.ident), name.ident.to_string())),
        UseTree::Rename(name) => found.push((longer(&name.ident), name.rename.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|inner| names(inner, path, found)),
        UseTree::Glob(_) => {}
    }
}

struct Listing {
    indices: BTreeMap<String, Index>,
    blocks: BTreeSet<String>,
}

impl Listing {
    /// Lists the public items of a module of a crate.
    fn module(&mut self, name_of_crate: &str, place: &str, folder: &Path, items: &[Item]) {
        for item in items {
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    let mut found = Vec::new();
                    names(&item.tree, &[], &mut found);
                    for (path, name) in found {
                        let from = if sources(&path[0]).is_some() { path[0].as_str() } else { name_of_crate };
                        self.export(from, place, &path, &name);
                    }
                }
                Item::Mod(module) if is_public(&module.vis) => {
                    let place = format!("{place}{}::", module.ident);
                    match &module.content {
                        Some((_, items)) => self.module(name_of_crate, &place, folder, items),
                        None => self.file(name_of_crate, &place, folder, &module.ident.to_string()),
                    }
                }
                Item::Struct(syn::ItemStruct { vis, ident, .. })
                | Item::Enum(syn::ItemEnum { vis, ident, .. })
                | Item::Trait(syn::ItemTrait { vis, ident, .. })
                | Item::Type(syn::ItemType { vis, ident, .. })
                | Item::Const(syn::ItemConst { vis, ident, .. })
                | Item::Fn(syn::ItemFn { vis, sig: syn::Signature { ident, .. }, .. })
                    if is_public(vis) =>
                {
                    self.export(name_of_crate, place, &[], &ident.to_string());
                }
                _ => {}
            }
        }
    }

    fn file(&mut self, name_of_crate: &str, place: &str, folder: &Path, module: &str) {
        let nested = folder.join(module);
        let path = if nested.is_dir() { nested.join("mod.rs") } else { folder.join(format!("{module}.rs")) };
        let file = syn::parse_file(&fs::read_to_string(path).expect("a module")).expect("Rust");
        self.module(name_of_crate, place, &nested, &file.items);
    }

    fn export(&mut self, name_of_crate: &str, place: &str, path: &[String], name: &str) {
        let folder = sources(name_of_crate).expect("a crate of the workspace");
        if name.starts_with(char::is_lowercase)
            && (folder.join(name).is_dir() || folder.join(format!("{name}.rs")).exists())
        {
            return self.file(name_of_crate, &format!("{place}{name}::"), &folder, name);
        }
        let mut block = String::new();
        // Modules of a crate may have functions of one name.
        if let [_, module, _] = path
            && name.starts_with(char::is_lowercase)
            && folder.join(module).is_dir()
        {
            Index::of(&folder.join(module)).describe(&mut block, place, name);
            self.blocks.insert(block);
            return;
        }
        match self.indices.get(name_of_crate) {
            Some(index) if path.first().is_none_or(|first| first == name_of_crate || sources(first).is_none()) => {
                index.describe(&mut block, place, name);
            }
            _ => {
                let _ = writeln!(block, "{place}{name} = {}", path.join("::"));
            }
        }
        self.blocks.insert(block);
    }
}

#[test]
fn the_public_interface_is_the_listed_one() {
    let crates = ["halo", "hlo", "exec", "cuda", "lowering_llvm"];
    let indices = crates.iter().map(|name| (name.to_string(), Index::of(&sources(name).expect("a crate")))).collect();
    let mut listing = Listing { indices, blocks: BTreeSet::new() };
    let file = syn::parse_file(&fs::read_to_string(root().join("src/lib.rs")).expect("src/lib.rs")).expect("Rust");
    listing.module("halo", "", &root().join("src"), &file.items);
    let found = listing.blocks.into_iter().collect::<Vec<_>>().join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(LIST);
    if std::env::var_os("HALO_BLESS").is_some() {
        fs::write(&path, &found).expect("the list is written");
    }
    let listed = fs::read_to_string(&path).unwrap_or_default();
    if found != listed {
        let difference = similar::TextDiff::from_lines(&listed, &found);
        panic!("the interface differs from {LIST}; HALO_BLESS=1 takes it over\n{}", difference.unified_diff());
    }
}
