// Closes what generic_begin.inl.h opened.

}  // namespace kvern::generic
