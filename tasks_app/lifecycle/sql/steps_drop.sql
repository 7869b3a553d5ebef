drop function if exists fd_step_done, fd_step_claim, fd_step_take, fd_step_complete, fd_step_tell, fd_job_step,
  fd_steps_guarded;
