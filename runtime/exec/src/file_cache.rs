//! A folder of files that can be made again, by keys that say what they were made from.
//!
//! A file appears whole, by renaming, so any number of processes may use a folder at once; two that make the same file write
//! the same. The files that were not used for longest go first when they become too many bytes. Whatever goes wrong with the
//! folder costs that a file is made again, no more.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// After this time, a file that was never renamed was left by a process that died.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A folder of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCache {
    directory: PathBuf,
    extension: &'static str,
    limit: u64,
}

impl FileCache {
    /// The files of an extension in a folder, of at most so many bytes.
    pub fn new(directory: PathBuf, extension: &'static str, limit: u64) -> Self {
        FileCache { directory, extension, limit }
    }

    /// Makes the folder if it is not there, its owner's only.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn make_directory(&self) -> io::Result<()> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.directory)
    }

    /// The folder.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.{}", self.extension))
    }

    /// What is kept for a key.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        // The time of the last change stands for the last use; that it is not set only makes the file older.
        let _ = File::options().append(true).open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Keeps bytes for a key, if they are no more than the cache holds.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if bytes.len() as u64 > self.limit {
            return;
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.directory.join(format!("{key}.{}.{number}.unfinished", process::id()));
        let written = fs::write(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, self.path(key)));
        if written.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        // What cannot be listed cannot be cleaned up either.
        let _ = self.clean_up();
    }

    /// Drops what is kept for a key.
    pub fn remove(&self, key: &str) {
        let _ = fs::remove_file(self.path(key));
    }

    /// Removes files until the rest is no more than the limit, the ones not used for longest first.
    fn clean_up(&self) -> io::Result<()> {
        let now = SystemTime::now();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.directory)?.flatten() {
            // Another process may remove the file meanwhile.
            let Ok(metadata) = entry.metadata() else { continue };
            let (path, used) = (entry.path(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            match path.extension().and_then(|extension| extension.to_str()) {
                Some(own) if own == self.extension => files.push((used, metadata.len(), path)),
                Some("unfinished") if now.duration_since(used).is_ok_and(|age| age > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                _ => {}
            }
        }
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        files.sort();
        for (_, size, path) in files {
            if total <= self.limit {
                break;
            }
            let _ = fs::remove_file(path);
            total -= size;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache_in_empty_folder(name: &str, limit: u64) -> FileCache {
        let folder = std::env::temp_dir().join(format!("halo-cache-{name}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        let cache = FileCache::new(folder, "halo", limit);
        cache.make_directory().unwrap();
        cache
    }

    #[test]
    fn the_oldest_files_go_first() {
        let cache = cache_in_empty_folder("oldest", 250);
        let keys = ["a", "b", "c"];
        for (age, key) in [(30, keys[0]), (20, keys[1])] {
            cache.put(key, &[0; 100]);
            let file = File::options().append(true).open(cache.path(key)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        assert!(cache.get(keys[0]).is_some(), "a use makes it the youngest");
        cache.put(keys[2], &[0; 100]);
        assert!(cache.get(keys[0]).is_some() && cache.get(keys[2]).is_some());
        assert!(cache.get(keys[1]).is_none());
        cache.put(keys[1], &[0; 251]);
        assert!(cache.get(keys[1]).is_none(), "larger than the cache");
        fs::remove_dir_all(cache.directory()).unwrap();
    }

    #[test]
    fn writers_of_the_same_key_do_not_meet() {
        let cache = cache_in_empty_folder("writers", 1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        cache.put("same", &[7; 1000]);
                        let kept = cache.get("same").unwrap();
                        assert!(kept.len() == 1000 && kept.iter().all(|&byte| byte == 7));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(cache.directory()).unwrap().count(), 1);
        fs::remove_dir_all(cache.directory()).unwrap();
    }
}
