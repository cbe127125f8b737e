"""How a kernel's parallel loop gets its threads: a launcher that is linked into every CPU library.

TVM compiles a `T.parallel` loop to a call through the pointer ``__TVMBackendParallelLaunch``. Its own thread pool
spins beside torch's OpenMP pool, and a model that alternates the two loses up to 10x. The launcher below hands the loop
to whatever OpenMP runtime the process already uses instead (`runtime.pool` finds it), with dynamic hand-out of tasks.
It is LLVM IR, so that the wheel stays pure Python; TVM's own LLVM compiles it.

``tvm_gnn_call(args, num_args, result, tasks, threads)`` calls the kernel (TVM's packed convention) with its parallel
loop cut into `tasks` tasks on `threads` threads, and returns 0 or the kernel's error code. Tasks and threads are
thread-local: concurrent calls from several Python threads do not see each other's.

Two pointers decide where the tasks run: ``tvm_gnn_omp_parallel`` (``GOMP_parallel``) if set, else
``tvm_gnn_tvm_parallel`` (TVM's own ``TVMBackendParallelLaunch``) if set, else the calling thread runs them all.
"""

from __future__ import annotations

CALL = "tvm_gnn_call"
OMP_PARALLEL = "tvm_gnn_omp_parallel"
TVM_PARALLEL = "tvm_gnn_tvm_parallel"

# %job = { lambda, closure data, number of tasks, next task to hand out, or-ed return codes }
IR = r"""
%job = type { ptr, ptr, i32, i32, i32 }
%env = type { ptr, i32 }

@__TVMBackendParallelLaunch = external global ptr
@tvm_gnn_omp_parallel = global ptr null
@tvm_gnn_tvm_parallel = global ptr null
@tasks = internal thread_local global i32 1
@threads = internal thread_local global i32 1

declare i32 @__tvm_ffi_main(ptr, ptr, i32, ptr)

define internal void @work(ptr %job) {
entry:
  %lambda = load ptr, ptr %job
  %data_at = getelementptr %job, ptr %job, i32 0, i32 1
  %data = load ptr, ptr %data_at
  %tasks_at = getelementptr %job, ptr %job, i32 0, i32 2
  %tasks = load i32, ptr %tasks_at
  %next_at = getelementptr %job, ptr %job, i32 0, i32 3
  %failed_at = getelementptr %job, ptr %job, i32 0, i32 4
  %env = alloca %env
  store ptr null, ptr %env
  %env_tasks_at = getelementptr %env, ptr %env, i32 0, i32 1
  store i32 %tasks, ptr %env_tasks_at
  br label %take
take:
  %task = atomicrmw add ptr %next_at, i32 1 monotonic
  %more = icmp slt i32 %task, %tasks
  br i1 %more, label %run, label %done
run:
  %code = call i32 %lambda(i32 %task, ptr %env, ptr %data)
  %failed = atomicrmw or ptr %failed_at, i32 %code monotonic
  br label %take
done:
  ret void
}

define internal i32 @work_for_tvm(i32 %worker, ptr %env, ptr %job) {
  call void @work(ptr %job)
  ret i32 0
}

define internal i32 @launch(ptr %lambda, ptr %data, i32 %num_task) {
entry:
  %job = alloca %job
  store ptr %lambda, ptr %job
  %data_at = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %data, ptr %data_at
  %tasks = load i32, ptr @tasks
  %tasks_at = getelementptr %job, ptr %job, i32 0, i32 2
  store i32 %tasks, ptr %tasks_at
  %next_at = getelementptr %job, ptr %job, i32 0, i32 3
  store i32 0, ptr %next_at
  %failed_at = getelementptr %job, ptr %job, i32 0, i32 4
  store i32 0, ptr %failed_at
  %omp_parallel = load ptr, ptr @tvm_gnn_omp_parallel
  %threads = load i32, ptr @threads
  %fewer_tasks = icmp slt i32 %tasks, %threads
  %useful = select i1 %fewer_tasks, i32 %tasks, i32 %threads
  %one_thread = icmp sle i32 %useful, 1
  br i1 %one_thread, label %here, label %choose_omp
choose_omp:
  %no_omp = icmp eq ptr %omp_parallel, null
  br i1 %no_omp, label %choose_tvm, label %omp
omp:
  call void %omp_parallel(ptr @work, ptr %job, i32 %useful, i32 0)
  br label %end
choose_tvm:
  %tvm_parallel = load ptr, ptr @tvm_gnn_tvm_parallel
  %no_tvm = icmp eq ptr %tvm_parallel, null
  br i1 %no_tvm, label %here, label %tvm
tvm:
  %launched = call i32 %tvm_parallel(ptr @work_for_tvm, ptr %job, i32 0)
  br label %here  ; if TVM refused, the tasks are still there to be taken
here:
  call void @work(ptr %job)
  br label %end
end:
  %failed = load i32, ptr %failed_at
  ret i32 %failed
}

define i32 @tvm_gnn_call(ptr %args, i32 %num_args, ptr %result, i32 %tasks, i32 %threads) {
  store i32 %tasks, ptr @tasks
  store i32 %threads, ptr @threads
  store ptr @launch, ptr @__TVMBackendParallelLaunch
  %code = call i32 @__tvm_ffi_main(ptr null, ptr %args, i32 %num_args, ptr %result)
  ret i32 %code
}
"""
