"""What a network is: layers, its parameters, its energy; and the builders."""
