"""The chaos run (`make chaos`): purchases through the whole product, with faulty sellers and kills.

`plan` decides what happens to each purchase, `product` starts the processes, `buyer` orders and approves,
`kills` kills, `run` does all of it, and `judge` compares our rows with the sellers' books at the end.
"""
