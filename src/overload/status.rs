//! Why a stream ended, in one classification, and what each protocol calls it.
