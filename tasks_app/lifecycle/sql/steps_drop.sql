drop function if exists fd_steps_done, fd_steps_claim, fd_steps_take, fd_step_end, fd_goes_back, fd_steps_guarded;
drop type if exists fd_entry, fd_told cascade;
