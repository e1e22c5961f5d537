! SPDX-License-Identifier: BSD-3-Clause
! heap_exchange: two ranks exchange arrays of Fortran's ALLOCATE, which are the C library's blocks, or the shared heap's.
! Whole arrays, a column that lies apart (the compiler copies it) and arrays that are allocated anew in each turn.
program heap_exchange
	use mpi
	implicit none
	integer, parameter :: rows = 1200, columns = 400, turns = 40
	real(kind(1d0)), allocatable :: out(:, :), into(:, :), line(:)
	integer :: error, me, other, turn, column, ranks

	call MPI_Init(error)
	call MPI_Comm_rank(MPI_COMM_WORLD, me, error)
	call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
	if (ranks /= 2) error stop 'two ranks are wanted'
	other = 1 - me
	do turn = 1, turns
		if (.not. allocated(out)) allocate (out(rows, columns), into(rows, columns))
		do column = 1, columns
			out(:, column) = me * 1d6 + turn * 1d3 + column
		end do
		into = -1
		call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, other, turn, into, size(into), &
			MPI_DOUBLE_PRECISION, other, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
		do column = 1, columns
			if (any(into(:, column) /= other * 1d6 + turn * 1d3 + column)) error stop 'a column differs'
		end do
		allocate (line(columns))
		call MPI_Sendrecv(out(turn, :), columns, MPI_DOUBLE_PRECISION, other, 0, line, columns, &
			MPI_DOUBLE_PRECISION, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
		if (any(line /= [(other * 1d6 + turn * 1d3 + column, column = 1, columns)])) error stop 'a row differs'
		deallocate (line)
		if (modulo(turn, 10) == 0) deallocate (out, into)
	end do
	print '(a)', 'exchange ok'
	call MPI_Finalize(error)
end program
