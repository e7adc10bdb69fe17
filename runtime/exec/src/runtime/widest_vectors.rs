//! Functions that are compiled for each width of vectors, of which that for the processor's widest is called.

/// Defines a function that calls another one, which must be inlined, in the processor's widest vectors. Arguments are passed on as they are:
/// what a closure has taken by reference would be read again after each store.
macro_rules! in_widest_vectors {
    (
        $(#[$attribute:meta])*
        unsafe fn $name:ident $(<$generic:ident: $bound:ident>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $inlined:path;
    ) => {
        $(#[$attribute])*
        unsafe fn $name $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            unsafe fn with_avx512 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                // SAFETY: as the caller promises.
                unsafe { $inlined($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            unsafe fn with_avx2 $(<$generic: $bound>)? ($($argument: $type),*) $(-> $result)? {
                // SAFETY: as the caller promises.
                unsafe { $inlined($($argument),*) }
            }
            // SAFETY: as the caller promises, and the processor has what the functions use.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx512f") {
                    return with_avx512($($argument),*);
                } else if is_x86_feature_detected!("avx2") {
                    return with_avx2($($argument),*);
                }
                $inlined($($argument),*)
            }
        }
    };
}

pub(super) use in_widest_vectors;
