//! How many tokens of the document at hand each topic has, with a list of the topics that have any.

/// Counts of one document at a time, n_dk.
pub struct DocumentTopics {
    /// n_dk of every topic.
    pub count: Vec<u32>,
    /// The topics with any tokens, in no order that matters.
    pub topics: Vec<u32>,
    /// Where in the list a topic stands.
    place: Vec<u32>,
}

impl DocumentTopics {
    pub fn new(num_topics: usize) -> Self {
        DocumentTopics { count: vec![0; num_topics], topics: Vec::new(), place: vec![0; num_topics] }
    }

    /// Take up a document whose tokens have these topics.
    pub fn begin(&mut self, assigned: &[u32]) {
        for k in self.topics.drain(..) {
            self.count[k as usize] = 0;
        }
        assigned.iter().for_each(|&k| self.add(k));
    }

    #[inline]
    pub fn add(&mut self, k: u32) {
        let count = &mut self.count[k as usize];
        if *count == 0 {
            self.place[k as usize] = self.topics.len() as u32;
            self.topics.push(k);
        }
        *count += 1;
    }

    #[inline]
    pub fn remove(&mut self, k: u32) {
        let count = &mut self.count[k as usize];
        *count -= 1;
        if *count == 0 {
            let at = self.place[k as usize] as usize;
            self.topics.swap_remove(at);
            if let Some(&moved) = self.topics.get(at) {
                self.place[moved as usize] = at as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_the_topics_that_have_tokens() {
        let mut document = DocumentTopics::new(5);
        document.begin(&[3, 1, 3, 4]);
        document.remove(3);
        document.remove(1);
        document.add(0);
        document.remove(4);
        document.topics.sort_unstable();
        assert_eq!((document.topics.as_slice(), document.count.as_slice()), (&[0, 3][..], &[1, 0, 0, 1, 0][..]));
        document.begin(&[2]);
        assert_eq!((document.topics.as_slice(), document.count.as_slice()), (&[2][..], &[0, 0, 1, 0, 0][..]));
    }
}
