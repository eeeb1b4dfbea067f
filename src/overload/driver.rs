//! What ticks: reads the meter, steps the policies, tells the hub.
