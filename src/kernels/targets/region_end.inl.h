// Closes what a target's begin file opened.

}  // namespace kvern::<target>

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
