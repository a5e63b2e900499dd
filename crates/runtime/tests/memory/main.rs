//! What an idle session takes of the heap, counted by an allocator that counts: no build option, load
//! or luck of the machine changes the figure much.

#[cfg(test)]
mod idle;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;
