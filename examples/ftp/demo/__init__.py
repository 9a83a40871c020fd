"""The parts of ftpdemo."""
