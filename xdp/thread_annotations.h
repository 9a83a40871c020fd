// Which lock guards what, in the words of Clang's thread safety analysis: it finds at compile time what is read or
// written without its lock. Other compilers see nothing. tests/tree/locks.test has Clang look.
//
//   class VIADUCT_CAPABILITY("mutex") M          a lock
//   class VIADUCT_SCOPED_CAPABILITY G            holds a lock from its constructor to its destructor
//   T member VIADUCT_GUARDED_BY(lock);           used under the lock only
//   T* member VIADUCT_PT_GUARDED_BY(lock);       what it points to is
//   M lock VIADUCT_ACQUIRED_AFTER(other);        the order, if a thread takes both
//   void f() VIADUCT_REQUIRES(lock);             the caller holds it
//   void f() VIADUCT_REQUIRES_SHARED(lock);      the caller may read what it guards; also ACQUIRE_SHARED
//   void f() VIADUCT_EXCLUDES(lock);             the caller does not
//   void f() VIADUCT_ACQUIRE(lock);              takes it, and returns with it
//   bool f() VIADUCT_TRY_ACQUIRE(true, lock);    the same if it returns true
//   void f() VIADUCT_RELEASE(lock);              gives it up
//   void f() VIADUCT_ASSERT_CAPABILITY(lock);    from here on the lock need not be held: f() says why
//   L& f() VIADUCT_RETURN_CAPABILITY(lock);      returns it
//
// ACQUIRE and RELEASE without an argument are about the object itself. VIADUCT_NO_THREAD_SAFETY_ANALYSIS exempts the body
// of a function; a comment says why.
#ifndef VIADUCT_XDP_THREAD_ANNOTATIONS_H
#define VIADUCT_XDP_THREAD_ANNOTATIONS_H

#ifdef __clang__
#define VIADUCT_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define VIADUCT_THREAD_ANNOTATION(x)
#endif

#define VIADUCT_CAPABILITY(kind) VIADUCT_THREAD_ANNOTATION(capability(kind))
#define VIADUCT_SCOPED_CAPABILITY VIADUCT_THREAD_ANNOTATION(scoped_lockable)
#define VIADUCT_GUARDED_BY(lock) VIADUCT_THREAD_ANNOTATION(guarded_by(lock))
#define VIADUCT_PT_GUARDED_BY(lock) VIADUCT_THREAD_ANNOTATION(pt_guarded_by(lock))
#define VIADUCT_ACQUIRED_BEFORE(...) VIADUCT_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define VIADUCT_ACQUIRED_AFTER(...) VIADUCT_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define VIADUCT_REQUIRES(...) VIADUCT_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define VIADUCT_REQUIRES_SHARED(...) VIADUCT_THREAD_ANNOTATION(requires_shared_capability(__VA_ARGS__))
#define VIADUCT_EXCLUDES(...) VIADUCT_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define VIADUCT_ACQUIRE(...) VIADUCT_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define VIADUCT_ACQUIRE_SHARED(...) VIADUCT_THREAD_ANNOTATION(acquire_shared_capability(__VA_ARGS__))
#define VIADUCT_TRY_ACQUIRE(...) VIADUCT_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define VIADUCT_RELEASE(...) VIADUCT_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define VIADUCT_ASSERT_CAPABILITY(...) VIADUCT_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define VIADUCT_RETURN_CAPABILITY(lock) VIADUCT_THREAD_ANNOTATION(lock_returned(lock))
#define VIADUCT_NO_THREAD_SAFETY_ANALYSIS VIADUCT_THREAD_ANNOTATION(no_thread_safety_analysis)

#endif
