//! Movement of an iterator over visible entries.

use crate::base::cursor::Cursor;
use crate::base::error::Result;
use crate::base::key::Trailer;

use crate::iterator::visible::held::{At, Visible, VisibleInner};

impl Visible {
    /// Moves to the first key of the range at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = if self.range.begins_after(key) { &self.range.from } else { key };
        self.seek_cost.seek();
        self.forward = true;
        self.at = At::Nowhere;
        let at = Trailer::at(self.read);
        each!(&mut self.inner, c => c.seek(key, at))?;
        self.find_visible_forward()
    }

    /// Moves to the first key of the range at or after `end`, the end of an empty range. A range
    /// found empty from there on is merged with that empty range.
    pub fn seek_past(&mut self, end: &[u8]) -> Result<()> {
        self.start.clear();
        self.start.extend_from_slice(end);
        self.begun = true;
        self.seek(end)?;
        self.begun = false;
        Ok(())
    }

    /// Moves to the last key of the range before `key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = match &self.range.until {
            Some(u) if u.as_slice() < key => u,
            _ => key,
        };
        self.seek_cost.seek();
        self.forward = false;
        self.at = At::Nowhere;
        each!(&mut self.inner, c => c.seek_before(key))?;
        self.find_visible_backward()
    }

    /// Moves to the first key of the range.
    pub fn first(&mut self) -> Result<()> {
        self.seek_cost.seek();
        let from = std::mem::take(&mut self.range.from);
        self.forward = true;
        self.at = At::Nowhere;
        let at = Trailer::at(self.read);
        let done = if from.is_empty() {
            each!(&mut self.inner, c => c.first())
        } else {
            each!(&mut self.inner, c => c.seek(&from, at))
        };
        self.range.from = from;
        done?;
        self.find_visible_forward()
    }

    /// Moves to the last key of the range.
    pub fn last(&mut self) -> Result<()> {
        self.seek_cost.seek();
        self.forward = false;
        self.at = At::Nowhere;
        match &self.range.until {
            Some(u) => each!(&mut self.inner, c => c.seek_before(u)),
            None => each!(&mut self.inner, c => c.last()),
        }?;
        self.find_visible_backward()
    }

    /// Moves to the next key. Does nothing if not positioned.
    #[inline]
    #[allow(clippy::should_implement_trait)] // a cursor lends its key and value, which an Iterator cannot
    pub fn next(&mut self) -> Result<()> {
        self.seek_cost.step();
        if self.at == At::Alone {
            self.at = At::Nowhere;
            self.forward = true;
            each!(&mut self.inner, c => c.next())?;
            return self.find_visible_forward();
        }
        self.next_slow()
    }

    fn next_slow(&mut self) -> Result<()> {
        let at = std::mem::replace(&mut self.at, At::Nowhere);
        self.blob = None;
        match at {
            At::Nowhere => return Ok(()),
            At::Alone | At::Entry | At::Blob => self.hold_key(),
            At::Held | At::HeldBlob => {}
        }
        if !self.forward {
            self.forward = true;
            let key = std::mem::take(&mut self.key);
            let done = each!(&mut self.inner, c => c.seek(&key, Trailer(0)));
            self.key = key;
            done?;
        } else {
            if at.is_on_entry() {
                each!(&mut self.inner, c => c.next())?;
            }
            self.skip_held()?;
        }
        self.find_visible_forward()
    }

    /// Moves to the previous key. Does nothing if not positioned.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.seek_cost.step();
        if self.at == At::Alone {
            self.at = At::Nowhere;
            self.forward = false;
            each!(&mut self.inner, c => c.prev())?;
            return self.find_visible_backward();
        }
        self.prev_slow()
    }

    fn prev_slow(&mut self) -> Result<()> {
        let at = std::mem::replace(&mut self.at, At::Nowhere);
        self.blob = None;
        match at {
            At::Nowhere => return Ok(()),
            At::Alone | At::Entry | At::Blob => self.hold_key(),
            At::Held | At::HeldBlob if !self.forward => return self.find_visible_backward(),
            At::Held | At::HeldBlob => {}
        }
        self.forward = false;
        let key = std::mem::take(&mut self.key);
        let done = each!(&mut self.inner, c => c.seek_before(&key));
        self.key = key;
        done?;
        self.find_visible_backward()
    }
}
