//! Elements attributes that refer to bytes owned by Rust: dense resources whose blob is shared, not copied.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use melior::StringRef;
use melior::ir::attribute::{Attribute, AttributeLike};
use melior::ir::{Type, TypeLike};
use mlir_sys::{MlirAttribute, mlirUnmanagedDenseResourceElementsAttrGet};

/// Addresses of a type, which tells the context, and of the bytes.
type Key = (usize, usize);

struct Blob {
    attribute: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

/// The blobs that live contexts refer to.
static BLOBS: LazyLock<Mutex<HashMap<Key, Blob>>> = LazyLock::new(Mutex::default);

fn blobs() -> MutexGuard<'static, HashMap<Key, Blob>> {
    BLOBS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A `dense_resource` of a shaped type, with bytes that live at least as long as the type's context. Equal types and
/// bytes at the same place give the same attribute. `name` is the resource's in text, where MLIR makes it unique.
///
/// The bytes must be in MLIR's format: elements one after another in whole bytes, with those of `i1` too.
pub fn shared_elements<'c, T>(r#type: Type<'c>, name: &str, owner: &Arc<T>, alignment: usize) -> Attribute<'c>
where
    T: Deref<Target = [u8]> + Send + Sync + 'static,
{
    let bytes: &[u8] = owner;
    let key = (r#type.to_raw().ptr as usize, bytes.as_ptr() as usize);
    let mut blobs = blobs();
    if let Some(blob) = blobs.get(&key) {
        // SAFETY: the entry goes when its context does, so that the attribute is one of the type's context.
        return unsafe { Attribute::from_raw(MlirAttribute { ptr: blob.attribute as *const c_void }) };
    }
    // SAFETY: the type is live; the bytes stay where they are until `forget` is called, and are not written; MLIR
    // copies the name.
    let attribute = unsafe {
        Attribute::from_raw(mlirUnmanagedDenseResourceElementsAttrGet(
            r#type.to_raw(),
            StringRef::new(name).to_raw(),
            bytes.as_ptr().cast_mut().cast(),
            bytes.len(),
            alignment,
            false,
            Some(forget),
            Box::into_raw(Box::new(key)).cast(),
        ))
    };
    let owner: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(owner);
    blobs.insert(key, Blob { attribute: attribute.to_raw().ptr as usize, owner });
    attribute
}

/// The owner of the bytes that [`shared_elements`] made an attribute of; `None` for other attributes.
pub fn owner_of<T: Send + Sync + 'static>(elements: Attribute<'_>, bytes: &[u8]) -> Option<Arc<T>> {
    let key = (elements.r#type().to_raw().ptr as usize, bytes.as_ptr() as usize);
    let owner = Arc::clone(&blobs().get(&key)?.owner);
    owner.downcast().ok()
}

/// Called by MLIR when a context goes.
unsafe extern "C" fn forget(key: *mut c_void, _data: *const c_void, _size: usize, _alignment: usize) {
    // SAFETY: it is the box that `shared_elements` gave away, and MLIR calls this once.
    let key = unsafe { Box::from_raw(key.cast::<Key>()) };
    // The owner is dropped after the lock is released.
    let _blob = blobs().remove(&key);
}

#[cfg(test)]
mod tests {
    use melior::Context;
    use melior::ir::r#type::RankedTensorType;

    use super::*;

    #[test]
    fn bytes_are_shared_until_the_context_goes() {
        let owner = Arc::new(vec![7u8; 1000]);
        let context = Context::new();
        let byte = Type::parse(&context, "i8").unwrap();
        let r#type = Type::from(RankedTensorType::new(&[1000], byte, None));
        let attribute = shared_elements(r#type, "bytes", &owner, 1);
        assert_eq!(shared_elements(r#type, "bytes", &owner, 1), attribute);
        assert_eq!(Arc::strong_count(&owner), 2);
        let back: Arc<Vec<u8>> = owner_of(attribute, &owner).unwrap();
        assert!(Arc::ptr_eq(&back, &owner));
        assert!(owner_of::<String>(attribute, &owner).is_none());
        drop(back);
        let other = Context::new();
        let byte = Type::parse(&other, "i8").unwrap();
        shared_elements(Type::from(RankedTensorType::new(&[1000], byte, None)), "bytes", &owner, 1);
        assert_eq!(Arc::strong_count(&owner), 3);
        drop(context);
        assert_eq!(Arc::strong_count(&owner), 2);
        drop(other);
        assert_eq!(Arc::strong_count(&owner), 1);
    }
}
