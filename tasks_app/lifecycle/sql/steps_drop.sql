drop function if exists fd_step_done, fd_step_claim, fd_goes_back, fd_steps_guarded;
drop type if exists fd_entry, fd_told cascade;
