"""The chaos run (`make chaos`): purchases through the whole product, among sellers that misbehave and kills.

`plan` says what each purchase will meet; `seller` is a process that does it; `stage` starts the product;
`drive` puts the deals forward and decides on them; `kills` kills; `judge` counts at the end, at the sellers
and here; `report` tells.
"""
